// The automations: what each is started by, when it fires next, how its last runs went. And drafts that wait for a person.

import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Automation, Run } from '@/api/types'
import { NoneFits, Rows } from '@/components/list-page'
import { PageHead, Tabs } from '@/components/page-head'
import { AutomationBadge, RunBadge, Ticks } from '@/components/run-status'
import { useSpaceNames } from '@/components/spaces-field'
import { Button, buttonClass, Copy, cx, Empty, Foreign, fieldClass, When } from '@/components/ui'
import { useSteady } from '@/features/policies/use-steady'
import { lastRunsQuery } from '@/features/runs/queries'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useRefresh } from '@/lib/refresh'
import { rank } from '@/lib/search'
import { Import } from './import'
import { healthOf, startsWhen } from './model'
import { draftsQuery, listQuery } from './queries'

const route = getRouteApi('/automations')
const STATUSES = ['active', 'paused', 'archived'] as const

export function Automations() {
  const { status, q = '' } = route.useSearch()
  const navigate = useNavigate({ from: '/automations' })
  const automations = useQuery(listQuery(status))
  const runs = useQuery(lastRunsQuery())
  const mayWrite = useMay().includes('invoke')
  const [isImporting, setImporting] = useState(false)
  useRefresh(['automation.'], ['automations', 'runs'])
  const listed = automations.data?.filter(automation => rank(automation.name, q) > 0)
  const { items, isGone, fresh, show } = useSteady(listed, JSON.stringify({ status, q }))
  const isFiltered = !!status || !!q
  return (
    <div className="flex h-full flex-col">
      <PageHead title="Automations" command={`countersign automation list${status ? ` --status ${status}` : ''}`}>
        <div className="mt-2 flex flex-wrap gap-2">
          <input
            type="search"
            aria-label="Filter"
            placeholder="Filter by name"
            value={q}
            onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
            className={`${fieldClass} flex-1 basis-48 sm:max-w-80`}
          />
          {mayWrite && (
            <span className="ml-auto flex flex-wrap gap-2">
              <Button onClick={() => setImporting(true)}>Import…</Button>
              <Link to="/automations/gallery" className={buttonClass('primary')}>
                New automation
              </Link>
            </span>
          )}
        </div>
        <Tabs
          label="Status"
          at={status ?? ''}
          tabs={[{ name: '', label: 'Active and paused' }, ...STATUSES.map(name => ({ name: name as string, label: name }))]}
          onPick={name => void navigate({ search: old => ({ ...old, status: name || undefined }) })}
        />
      </PageHead>
      <div className="min-h-0 flex-1 overflow-auto">
        <Drafts />
        {fresh > 0 && (
          <p className="py-2 text-center">
            <Button onClick={show}>Show what changed ({fresh})</Button>
          </p>
        )}
        <Rows
          query={automations}
          isEmpty={items.length === 0}
          empty={<Nothing isFiltered={isFiltered} mayWrite={mayWrite} onClear={() => void navigate({ search: {} })} />}
        >
          <ul aria-label="Automations" className="divide-y">
            {items.map(automation => (
              <li key={automation.id} className={cx(isGone(automation.id) && 'opacity-50')}>
                <Row automation={automation} runs={runs.data ?? []} />
              </li>
            ))}
          </ul>
        </Rows>
      </div>
      {isImporting && <Import onClose={() => setImporting(false)} />}
    </div>
  )
}

function Row({ automation, runs }: { automation: Automation; runs: readonly Run[] }) {
  const health = healthOf(automation.id, runs)
  const space = useSpaceNames([automation.space_id])
  return (
    <Link
      to="/automations/$automation"
      params={{ automation: automation.id }}
      className="grid items-center gap-x-4 gap-y-1 px-4 py-2.5 hover:bg-muted sm:grid-cols-[6rem_minmax(0,1fr)_auto] md:px-6"
    >
      <AutomationBadge status={automation.status} />
      <span className="min-w-0">
        <Foreign text={automation.name} className="block truncate font-medium" />
        <span className="block truncate text-xs text-muted-fg">
          {line(startsWhen(automation))} · in {line(space)}
        </span>
      </span>
      <span className="flex flex-wrap items-center gap-x-3 text-xs text-muted-fg sm:justify-end">
        {health.length > 0 && <Ticks statuses={health} />}
        {automation.last_run ? (
          <span className="whitespace-nowrap">
            <RunBadge status={automation.last_run.status} /> <When at={automation.last_run.created_at} />
          </span>
        ) : (
          'never ran'
        )}
        {automation.next_due_at && (
          <span className="whitespace-nowrap">
            · next <When at={automation.next_due_at} />
          </span>
        )}
      </span>
    </Link>
  )
}

/** What others proposed, or what was imported: it is no automation until a person saves it. */
function Drafts() {
  const drafts = useQuery(draftsQuery)
  const nameOf = useNames()
  if (!drafts.data?.length) return null
  return (
    <section aria-label="Drafts" className="border-b">
      <h2 className="bg-muted px-4 py-1 text-xs font-semibold text-muted-fg md:px-6">
        {counted(drafts.data.length, 'draft')} {drafts.data.length === 1 ? 'waits' : 'wait'} for a person
      </h2>
      <ul className="divide-y">
        {drafts.data.map(draft => (
          <li key={draft.id}>
            <Link
              to="/automations/drafts/$draft"
              params={{ draft: draft.id }}
              className="flex flex-wrap items-baseline gap-x-3 px-4 py-2 hover:bg-muted md:px-6"
            >
              <Foreign text={draft.name || 'without a name'} className="min-w-0 truncate font-medium" />
              <span className="text-xs text-muted-fg">
                {draft.automation_id ? 'a new version' : 'new'} · by {line(nameOf(draft.made_by))} · ends <When at={draft.expires_at} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Nothing({ isFiltered, mayWrite, onClear }: { isFiltered: boolean; mayWrite: boolean; onClear: () => void }) {
  if (isFiltered) return <NoneFits what="automation" onClear={onClear} />
  return (
    <Empty title="Nothing runs by itself yet">
      <p>
        An automation runs on a schedule, a webhook or an event. Each of its steps is a call like any other, and waits for a person where
        one has to answer.
      </p>
      {mayWrite && (
        <Link to="/automations/gallery" className={`${buttonClass('primary')} mt-4`}>
          Begin with an example
        </Link>
      )}
      <p className="mt-4">
        <Copy text="countersign automation apply -f morning-note.json" />
      </p>
    </Empty>
  )
}
