// The events of the org as they happen, and what was given up.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { Pre } from '@/components/changes'
import { FilterField } from '@/components/filter-field'
import { Asked, Rows } from '@/components/list-page'
import { PageHead, Tabs } from '@/components/page-head'
import { Button, Copy, cx, Empty, Foreign, Loading, When } from '@/components/ui'
import { json } from '@/lib/clean'
import { useLive, useOrgEvents } from '@/lib/events'
import { quoted, withFlags } from '@/lib/format'
import type { OrgEvent } from '@/lib/live'
import { useNames } from '@/lib/names'
import { deadCountQuery } from '@/lib/waiting'
import { DeadLetters } from './dead'
import { Groups } from './groups'
import { fits, isRepeated, joined, KINDS, summaryOf } from './model'
import { type EventFilter, eventQuery, eventsQuery, type LetterKind } from './queries'

const route = getRouteApi('/events')
/** So many are kept of those that the stream told. */
const LIVE_MAX = 1_000

export function Events() {
  const { tab, type, subject, kind, event, letter } = route.useSearch()
  const navigate = useNavigate({ from: '/events' })
  const dead = useQuery(deadCountQuery).data
  const set = (name: 'type' | 'subject') => (value: string) =>
    void navigate({ search: old => ({ ...old, [name]: value || undefined }), replace: true })
  return (
    <div className="flex h-full flex-col">
      <PageHead
        title="Events"
        command={
          tab === 'groups'
            ? 'countersign event group list'
            : tab === 'dead'
              ? deadCommand(kind, letter)
              : eventCommand({ type, subject }, event)
        }
      >
        {!tab && !event && (
          <div className="mt-2 grid gap-2 sm:grid-cols-2">
            <FilterField label="Type" placeholder="type: invocation, invocation.held" value={type} options={KINDS} onApply={set('type')} />
            <FilterField label="Subject" placeholder="subject: the whole id of a call, a grant" value={subject} onApply={set('subject')} />
          </div>
        )}
        <Tabs
          label="Events, dead letters or groups"
          at={tab ?? 'live'}
          tabs={[
            { name: 'live', label: 'Events' },
            { name: 'dead', label: 'Dead letters', count: dead },
            { name: 'groups', label: 'Consumer groups' },
          ]}
          onPick={name =>
            void navigate({ search: old => ({ ...old, event: undefined, letter: undefined, tab: name === 'live' ? undefined : name }) })
          }
        />
      </PageHead>
      {tab === 'groups' ? (
        <Groups />
      ) : tab === 'dead' ? (
        <div className="min-h-0 flex-1 overflow-auto">
          <DeadLetters
            kind={kind}
            onKind={picked => void navigate({ search: old => ({ ...old, kind: picked }), replace: true })}
            alone={letter}
            onAll={() => void navigate({ search: { tab: 'dead' } })}
          />
        </div>
      ) : event ? (
        <Alone event={event} onAll={() => void navigate({ search: {} })} />
      ) : (
        <Tail key={`${type}\n${subject}`} filter={{ type, subject }} />
      )}
    </div>
  )
}

const deadCommand = (kind?: LetterKind, letter?: string) =>
  letter ? `countersign event dlq show ${quoted(letter)}` : withFlags('countersign event dlq list', { kind })
const eventCommand = (filter: EventFilter, event?: string) =>
  event ? `countersign event show ${quoted(event)}` : withFlags('countersign event tail', filter)

/** One event, by its position or its id. */
function Alone({ event, onAll }: { event: string; onAll: () => void }) {
  const read = useQuery(eventQuery(event))
  return (
    <div className="min-h-0 flex-1 overflow-auto">
      <div className="border-b px-4 py-1 md:px-6">
        <Button look="quiet" onClick={onAll}>
          Show all
        </Button>
      </div>
      <Asked query={read} />
      {read.isPending && <Loading />}
      <ul>{read.data && <Row key={read.data.id} event={read.data} isAlone />}</ul>
    </div>
  )
}

function Tail({ filter }: { filter: EventFilter }) {
  const client = useQueryClient()
  const read = useInfiniteQuery(eventsQuery(filter))
  const { state } = useLive()
  const [live, setLive] = useState<readonly OrgEvent[]>([])
  const [waiting, setWaiting] = useState<readonly OrgEvent[]>([])
  const [follows, setFollows] = useState(false)
  useOrgEvents(event => {
    // Some may have been missed: they are read.
    if (event === 'reset') void client.invalidateQueries({ queryKey: eventsQuery(filter).queryKey })
    else if (!isRepeated(event) && fits(event, filter)) setWaiting(old => [event, ...old].slice(0, LIVE_MAX))
  })
  const reveal = () => {
    setLive(old => [...waiting, ...old].slice(0, LIVE_MAX))
    setWaiting([])
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: only new events are revealed
  useEffect(() => {
    if (follows && waiting.length > 0) reveal()
  }, [follows, waiting])
  const older = read.data?.pages.flatMap(page => page.items) ?? []
  const events = joined(live, older)
  const known = new Set(events.map(event => event.cursor))
  const fresh = waiting.filter(event => !known.has(event.cursor)).length
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-10 flex-wrap items-center gap-x-4 gap-y-1 border-b px-4 py-1 md:px-6">
        <label className="flex items-center gap-2">
          <input type="checkbox" checked={follows} onChange={event => setFollows(event.target.checked)} className="size-4" /> Show new ones
          at once
        </label>
        <span className="text-xs text-muted-fg">{state === 'live' ? '' : `the stream is ${state}`}</span>
        <span className="flex-1" />
        {fresh > 0 && !follows && (
          <Button look="quiet" className="min-h-8 text-primary" onClick={reveal}>
            <span aria-live="polite">{fresh} new</span>
          </Button>
        )}
      </div>
      <div className="min-h-0 flex-1 overflow-auto">
        <Rows
          query={read}
          isEmpty={events.length === 0}
          empty={
            <Empty title="Nothing of this kind happened lately">
              <p>New ones appear by themselves. Every change and every call leaves an event.</p>
            </Empty>
          }
        >
          <ul className="divide-y">
            {events.map(event => (
              <Row key={event.cursor} event={event} />
            ))}
          </ul>
        </Rows>
      </div>
    </div>
  )
}

/** Which events are bad news, by the last word of their name. */
const BAD = ['failed', 'denied', 'doubted', 'quarantined', 'drifted', 'opened', 'reverted']

function Row({ event, isAlone = false }: { event: OrgEvent; isAlone?: boolean }) {
  const [isOpen, setOpen] = useState(isAlone)
  const summary = summaryOf(event, useNames())
  return (
    <li className="px-4 py-2 md:px-6">
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
        className="grid w-full items-baseline gap-x-4 text-left sm:grid-cols-[15rem_minmax(0,1fr)_auto]"
      >
        <span className={cx('font-mono text-[13px]', BAD.includes(event.type.split('.')[1] ?? '') && 'text-danger')}>{event.type}</span>
        <Foreign text={summary || event.subject} className="min-w-0 sm:truncate" />
        <span className="text-xs text-muted-fg">
          <When at={event.time} />
        </span>
      </button>
      {isOpen && (
        <div className="mt-2 space-y-2">
          <p className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs">
            <Copy text={event.id} />
            <Copy text={`countersign event show ${event.cursor}`} />
            {!isAlone && (
              <Link to="/events" search={{ event: event.cursor }} className="text-primary underline">
                This one alone
              </Link>
            )}
            <Subject event={event} />
            {event.receipt && (
              <Link to="/receipts/$receipt" params={{ receipt: event.receipt }} className="text-primary underline">
                Receipt
              </Link>
            )}
            <Link to="/events" search={{ subject: event.subject }} className="text-primary underline">
              All about {event.subject.slice(0, 40)}
            </Link>
          </p>
          <Pre text={json(event)} />
        </div>
      )}
    </li>
  )
}

function Subject({ event: { subject } }: { event: OrgEvent }) {
  if (!subject.startsWith('inv_')) return <Foreign text={subject} />
  return (
    <Link to="/invocations/$invocation" params={{ invocation: subject }} className="text-primary underline">
      The call
    </Link>
  )
}
