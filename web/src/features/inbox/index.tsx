// The inbox: what waits for a person, one of it whole, and the ways to answer.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft, MessageSquareText, RefreshCw, Scale } from 'lucide-react'
import { useMemo, useRef, useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Action, Invocation } from '@/api/types'
import { Tabs } from '@/components/page-head'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Empty, Failed, fieldClass, Loading, When } from '@/components/ui'
import { tryOut } from '@/features/actions/queries'
import { useNow } from '@/lib/clock'
import { useOpenFirst } from '@/lib/first'
import { counted } from '@/lib/format'
import { useRequestedGrants } from '@/lib/grants'
import { useKeys } from '@/lib/hotkeys'
import { useMay } from '@/lib/me'
import { useUnread } from '@/lib/notifications'
import { useSending } from '@/lib/sending'
import { driftedQuery, useWaiting } from '@/lib/waiting'
import { Answer, useSentDenials } from './answer'
import { BulkDialog } from './dialogs'
import { List } from './list'
import { alike, gone, isOpen, matches, range } from './model'
import { decidedQuery, lastDecisionQuery, listedQuery } from './queries'
import { useShelf } from './shelf'

export const TABS = ['pending', 'attention', 'snoozed', 'decided'] as const
export type Tab = (typeof TABS)[number]
const NAMES: Record<Tab, string> = { pending: 'Pending', attention: 'To settle', snoozed: 'Later', decided: 'Decided' }

const route = getRouteApi('/')

export function Inbox() {
  const { tab = 'pending', call, q = '' } = route.useSearch()
  const navigate = useNavigate({ from: '/' })
  const { shelf, listed, dispatch } = useShelf()
  const denials = useSentDenials()
  const decided = useInfiniteQuery({ ...decidedQuery, enabled: tab === 'decided' })
  const told = useQuery({ ...listedQuery(tab === 'snoozed' ? tab : 'attention'), enabled: tab === 'snoozed' || tab === 'attention' })
  const others = tab === 'decided' ? decided : told
  const now = useNow()
  const filter = useRef<HTMLInputElement>(null)

  const items = useMemo(() => {
    const all = {
      pending: () => shelf.shown.flatMap(id => shelf.known.get(id) ?? []),
      decided: () => decided.data?.pages.flatMap(page => page.items) ?? [],
      snoozed: () => told.data ?? [],
      attention: () => told.data ?? [],
    }[tab]()
    return all.filter(item => matches(item, q))
  }, [tab, shelf, decided.data, told.data, q])
  const select = (id: string | undefined) =>
    void navigate({ search: old => ({ ...old, call: id }), replace: call !== undefined && id !== undefined })

  useOpenFirst(!!call, items[0]?.id, id => void navigate({ search: old => ({ ...old, call: id }), replace: true }), tab)

  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set())
  const lastMarked = useRef<string>(undefined)
  const mayMark = useMay().includes('approve') && tab === 'pending' && shelf.shown.length > 1
  const mark = (id: string | undefined, to?: string) => {
    if (!mayMark || !id) return
    const rows = items.map(item => item.id)
    const ids = to ? range(rows, to, id) : [id]
    setMarked(old => {
      const next = new Set(old)
      for (const each of ids) to || !next.has(each) ? next.add(each) : next.delete(each)
      return next
    })
    lastMarked.current = id
  }
  const isAsking = (item: Invocation) => isOpen(item, now) && !shelf.snoozed.has(item.id)
  const chosen = [...marked].flatMap(id => shelf.known.get(id) ?? []).filter(isAsking)
  const like = shelf.known.get(lastMarked.current ?? '')
  const [bulk, setBulk] = useState<readonly Invocation[]>()

  const move = (by: number) => {
    const at = items.findIndex(item => item.id === call)
    const next = items[Math.min(items.length - 1, Math.max(0, at + by))]
    if (next) select(next.id)
  }
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    '/': () => filter.current?.focus(),
    escape: () => (marked.size ? setMarked(new Set()) : select(undefined)),
    x: () => mark(call),
    'Shift+x': () => mark(call, lastMarked.current ?? call),
    ...(marked.size > 0 && { a: () => chosen.length > 0 && setBulk(chosen) }),
    n: () => dispatch({ kind: 'revealed' }),
  })

  const drifted = useQuery(driftedQuery)
  const waiting = useWaiting()
  const counts: Partial<Record<Tab, number>> = { attention: waiting.doubted + waiting.held + waiting.drifted }

  const error = (tab === 'pending' ? listed.error : others.error) as ApiError | null
  const isLoading = tab === 'pending' ? !shelf.isWhole : others.isPending
  const { ended, putOff } = gone(shelf, now)
  const cleared = [ended > 0 && `${ended} ended`, putOff > 0 && `${putOff} put off`].filter(Boolean).join(' and ')
  const revealed = [
    shelf.waiting.length > 0 && `${shelf.waiting.length} new`,
    cleared && `clear ${cleared}`,
    shelf.isMixed && shelf.isWhole && 'show first what ends first',
  ].filter(Boolean)
  return (
    <div className="flex h-full min-h-0">
      <h1 className="sr-only">Inbox</h1>
      <section aria-label="Inbox" className={cx('flex w-full flex-col border-r lg:w-80 lg:shrink-0 xl:w-[25rem]', call && 'max-lg:hidden')}>
        <div className="border-b px-3 pb-3">
          <Tabs
            label="Which calls"
            at={tab}
            tabs={TABS.map(name => ({ name, label: NAMES[name], count: counts[name] }))}
            onPick={name => void navigate({ search: old => ({ ...old, tab: name === 'pending' ? undefined : name, call: undefined }) })}
          />
        </div>
        <div className="border-b p-2">
          <input
            ref={filter}
            type="search"
            value={q}
            aria-label="Filter"
            placeholder="Filter by action, session, params…   /"
            onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
            onKeyDown={event => event.key === 'Escape' && event.currentTarget.blur()}
            className={fieldClass}
          />
        </div>
        {tab === 'pending' && <GrantRequests />}
        {tab === 'pending' && <ServerMessages />}
        {tab === 'pending' && revealed.length > 0 && (
          <Button look="quiet" hotkey="N" className="rounded-none border-b text-primary" onClick={() => dispatch({ kind: 'revealed' })}>
            <span aria-live="polite">{revealed.join(' · ')}</span>
          </Button>
        )}
        {tab === 'attention' && <Drifted actions={drifted.data ?? []} />}
        {error && <Failed error={error} />}
        {isLoading && !error && items.length === 0 ? (
          <Loading />
        ) : items.length > 0 ? (
          <List
            items={items}
            selected={call}
            marked={marked}
            snoozed={shelf.snoozed}
            onSelect={select}
            onMove={move}
            onMark={mayMark ? id => mark(id) : undefined}
          />
        ) : (
          !error &&
          !(tab === 'attention' && drifted.data?.length && !q) && (
            <NothingHere tab={tab} onClear={q ? () => void navigate({ search: old => ({ ...old, q: undefined }) }) : undefined} />
          )
        )}
        {tab === 'decided' && decided.hasNextPage && (
          <Button
            look="quiet"
            className="rounded-none border-t text-primary"
            busy={decided.isFetchingNextPage}
            onClick={() => void decided.fetchNextPage()}
          >
            Older
          </Button>
        )}
        {marked.size > 0 && (
          <div className="flex flex-wrap items-center gap-2 border-t bg-panel p-3">
            <span className="flex-1">{counted(chosen.length, 'call')} selected</span>
            <Button
              look="quiet"
              disabled={!like}
              title="Those that ask for the same action with the same params"
              onClick={() => like && setMarked(new Set([...marked, ...alike(items.filter(isAsking), like)]))}
            >
              All alike
            </Button>
            <Button look="quiet" onClick={() => setMarked(new Set())}>
              Clear
            </Button>
            <Button look="primary" hotkey="A" disabled={chosen.length === 0} onClick={() => setBulk(chosen)}>
              Approve each once…
            </Button>
          </div>
        )}
      </section>
      <section aria-label="The selected call" className={cx('flex min-w-0 flex-1 flex-col', !call && 'max-lg:hidden')}>
        {call ? (
          <>
            <Button look="quiet" className="self-start lg:hidden" onClick={() => select(undefined)}>
              <ArrowLeft aria-hidden className="size-4" /> Inbox
            </Button>
            <div className="min-h-0 flex-1">
              <Answer
                key={call}
                id={call}
                isToSettle={tab === 'attention'}
                isPutOff={tab === 'snoozed' && items.some(item => item.id === call)}
                isOneOfMany={marked.size > 0}
                denials={denials}
              />
            </div>
          </>
        ) : (
          <Empty title="Nothing is selected">{items.length > 0 ? 'J and K move through the list.' : undefined}</Empty>
        )}
      </section>
      {bulk && <Bulk items={bulk} onClose={() => setBulk(undefined)} onApproved={() => setMarked(new Set())} />}
    </div>
  )
}

function Bulk({ items, onClose, onApproved }: { items: readonly Invocation[]; onClose: () => void; onApproved: () => void }) {
  const { changed } = useShelf()
  return (
    <BulkDialog
      items={items}
      onClose={onClose}
      onDone={approved => {
        for (const item of approved) changed(item)
        onApproved()
      }}
    />
  )
}

/** Requests for grants, which are no calls. */
function GrantRequests() {
  const count = useRequestedGrants()
  if (count === 0) return null
  return (
    <Link to="/policies/grants" className="flex items-center gap-2 border-b px-3 py-2 text-primary hover:bg-muted">
      <Scale aria-hidden className="size-3.5 shrink-0" />
      <span aria-live="polite">
        {counted(count, 'grant request')} {count === 1 ? 'waits' : 'wait'}
      </span>
    </Link>
  )
}

/** What the server told since this person last looked, such as a run in quarantine: there is no call to answer. */
function ServerMessages() {
  const { ofServer } = useUnread()
  if (ofServer === 0) return null
  return (
    <Link to="/notifications" className="flex items-center gap-2 border-b px-3 py-2 text-primary hover:bg-muted">
      <MessageSquareText aria-hidden className="size-3.5 shrink-0" />
      <span aria-live="polite">{counted(ofServer, 'message')} from the server itself</span>
    </Link>
  )
}

/** Definitions to review, which are no calls. */
function Drifted({ actions }: { actions: readonly Action[] }) {
  if (actions.length === 0) return null
  return (
    <section aria-label="Definitions to review" className="max-h-[50%] shrink-0 overflow-auto border-b">
      <h2 className="bg-muted px-3 py-1 text-xs font-semibold text-muted-fg">{counted(actions.length, 'definition')} to review</h2>
      {actions.map(action => (
        <Link
          key={action.id}
          to="/actions"
          search={{ action: action.id }}
          className="flex items-center gap-2 border-t px-3 py-2 hover:bg-muted"
        >
          <RefreshCw aria-hidden className="size-3.5 shrink-0 text-danger" />
          <span className="min-w-0 flex-1 truncate font-mono text-[13px]">{action.id}</span>
          <span className="shrink-0 text-xs text-muted-fg">{action.drift === 'appeared' ? 'new' : 'changed'}</span>
        </Link>
      ))}
    </section>
  )
}

function NothingHere({ tab, onClear }: { tab: Tab; onClear?: () => void }) {
  if (onClear)
    return (
      <Empty title="Nothing fits the filter">
        <Button onClick={onClear}>Show all</Button>
      </Empty>
    )
  if (tab === 'pending') return <NothingWaits />
  const { title, text } = EMPTY_TABS[tab]
  return <Empty title={title}>{text}</Empty>
}

const EMPTY_TABS: Record<Exclude<Tab, 'pending'>, { title: string; text: string }> = {
  attention: {
    title: 'Nothing is to be settled',
    text: 'Calls whose outcome is unknown, what is in quarantine, and definitions that changed appear here.',
  },
  snoozed: { title: 'Nothing was put off', text: 'L hides a call for half an hour. It decides nothing.' },
  decided: { title: 'Nothing was decided yet', text: 'What people or rules decided stays here, with its receipt.' },
}

/** The way from an agent to this page can be tried before there is an agent. */
function NothingWaits() {
  const last = useQuery(lastDecisionQuery)
  const mayTry = useMay().includes('invoke')
  const { error, busy, run } = useSending()
  const { say } = useToasts()
  const test = () =>
    run('it', async () => {
      const { invocation } = await tryOut('files.write_text', { path: 'test-request.txt', text: 'A test of the inbox.\n' }, false)
      if (invocation.status !== 'pending') say(`No person is asked for this: it is ${invocation.status.replace('_', ' ')}.`)
    })
  return (
    <Empty title="Nothing waits for you">
      {last.data && (
        <p className="mb-3">
          The last decision was <When at={last.data} />.
        </p>
      )}
      <p>When an agent asks for something that needs a person, it appears here by itself. To connect one:</p>
      <Copy text="countersign connect claude-code --write" className="mt-3" />
      <p className="mt-3">To see first what happens then, in five minutes, on a server of its own:</p>
      <Copy text="countersign demo" className="mt-3" />
      <p className="mt-3">
        or, after <code>make run</code>, in its folder:
      </p>
      <Copy text="target/debug/countersign demo" className="mt-3" />
      {mayTry && (
        <p className="mt-4">
          <Button busy={!!busy} onClick={() => void test()}>
            Send a test request
          </Button>
        </p>
      )}
      {error && <Failed error={error} />}
    </Empty>
  )
}
