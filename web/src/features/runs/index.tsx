// Every run of every automation, by status.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Run } from '@/api/types'
import { Fresh } from '@/components/fresh'
import { ListPage, NoneFits } from '@/components/list-page'
import { Tabs } from '@/components/page-head'
import { RunBadge } from '@/components/run-status'
import { Copy, Empty, Foreign, fieldClass, When } from '@/components/ui'
import { automationsQuery } from '@/lib/automations'
import { line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { counted, milliseconds } from '@/lib/format'
import { useMay } from '@/lib/me'
import { BulkBar } from './bulk'
import { lasted, reached, STATUSES, startedBy } from './model'
import { runsQuery } from './queries'

const route = getRouteApi('/runs')

export function Runs() {
  const filter = route.useSearch()
  const navigate = useNavigate({ from: '/runs' })
  const runs = useInfiniteQuery(runsQuery(filter))
  const automations = useQuery(automationsQuery)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const mayRun = useMay().includes('invoke')
  const items = runs.data?.pages.flatMap(page => page.items) ?? []
  const picked = items.filter(run => chosen.has(run.id))
  const isFiltered = Object.values(filter).some(Boolean)
  const choose = (id: string, isChosen: boolean) =>
    setChosen(old => new Set(isChosen ? [...old, id] : [...old].filter(other => other !== id)))
  const isListed = automations.data?.some(automation => automation.id === filter.automation)
  const flags = [filter.automation ? ` --automation ${filter.automation}` : '', filter.status ? ` --status ${filter.status}` : '']
  return (
    <ListPage
      title="Runs"
      command={`countersign run list${flags.join('')}`}
      head={
        <>
          <select
            aria-label="Automation"
            value={filter.automation ?? ''}
            onChange={event =>
              void navigate({ search: old => ({ ...old, only: undefined, automation: event.target.value || undefined }), replace: true })
            }
            className={`${fieldClass} mt-2 sm:max-w-80`}
          >
            <option value="">of any automation</option>
            {filter.automation && !isListed && <option value={filter.automation}>{filter.automation}</option>}
            {automations.data?.map(automation => (
              <option key={automation.id} value={automation.id}>
                {line(automation.name)}
              </option>
            ))}
          </select>
          <Tabs
            label="Status"
            at={filter.status ?? ''}
            tabs={[{ name: '', label: 'All' }, ...STATUSES.map(status => ({ name: status as string, label: status.replace('_', ' ') }))]}
            onPick={status => void navigate({ search: old => ({ ...old, only: undefined, status: status || undefined }) })}
          />
        </>
      }
      above={
        <>
          <Fresh key={JSON.stringify(filter)} isNews={event => event.type.startsWith('automation.run.')} read={() => void runs.refetch()} />
          {filter.only && (
            <p className="flex flex-wrap items-center gap-3 border-b px-4 py-2 md:px-6">
              {counted(items.length, 'run')}, chosen before.
              <Link to="/runs" className="text-primary underline">
                Show all
              </Link>
            </p>
          )}
          {picked.length > 0 && (
            <BulkBar
              chosen={picked}
              onClear={() => setChosen(new Set())}
              onTouched={touched => void navigate({ search: { only: touched.join(',') } })}
            />
          )}
        </>
      }
      query={runs}
      isEmpty={items.length === 0}
      empty={<Nothing isFiltered={isFiltered} onClear={() => void navigate({ search: {} })} />}
    >
      <ul aria-label="Runs" className="divide-y">
        {items.map(run => (
          <li key={run.id} className="flex items-center hover:bg-muted">
            {mayRun && (
              <label className="flex items-center self-stretch pl-4 md:pl-6">
                <input
                  type="checkbox"
                  aria-label={`Choose ${run.id}`}
                  checked={chosen.has(run.id)}
                  onChange={event => choose(run.id, event.target.checked)}
                  className="size-4 accent-primary"
                />
              </label>
            )}
            <RunRow run={run} />
          </li>
        ))}
      </ul>
    </ListPage>
  )
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) return <NoneFits what="run" onClear={onClear} />
  return (
    <Empty title="Nothing has run yet">
      <p>A run appears here when a trigger of an automation fires, or when somebody runs it.</p>
      <Link to="/automations" className="mt-3 inline-block text-primary underline">
        To the automations
      </Link>
      <Copy text="countersign automation run 'Morning note'" className="mt-3" />
    </Empty>
  )
}

function RunRow({ run }: { run: Run }) {
  const now = useNow()
  const ms = lasted(run, now)
  return (
    <Link
      to="/runs/$run"
      params={{ run: run.id }}
      className="grid min-w-0 flex-1 items-center gap-x-4 px-4 py-2.5 sm:grid-cols-[8rem_minmax(0,1fr)_auto] md:pr-6"
    >
      <RunBadge status={run.status} />
      <span className="min-w-0">
        <Foreign text={run.automation_name ?? run.automation_id} className="block truncate font-medium" />
        <span className="block truncate text-xs text-muted-fg">
          version {run.version} · by {line(startedBy(run))} · {reached(run)}
          {run.rerun_of && ' · once more'}
          {run.error && <span className="text-danger"> · {line(`${run.error.step_id ?? run.error.code}: ${run.error.message}`)}</span>}
        </span>
      </span>
      <span className="text-xs text-muted-fg tabular-nums sm:text-right">
        <When at={run.created_at} />
        {ms !== undefined && (
          <span className="sm:block">
            <span className="sm:hidden"> · </span>
            {milliseconds(ms)}
          </span>
        )}
      </span>
    </Link>
  )
}
