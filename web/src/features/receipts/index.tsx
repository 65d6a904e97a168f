// Receipts: what was done, by whom, under which rule. Search them, open one, verify it.

import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import type { Entry, Status, Tier } from '@/api/types'
import { FilterField } from '@/components/filter-field'
import { Fresh } from '@/components/fresh'
import { ListPage, NoneFits } from '@/components/list-page'
import { Marks, StatusBadge, TierBadge } from '@/components/status'
import { Copy, cx, Empty, fieldClass, When } from '@/components/ui'
import { Who } from '@/features/policies/parts'
import { useActionIds } from '@/lib/actions'
import { milliseconds, withFlags } from '@/lib/format'
import { bodyOf, timeOf } from './model'
import { receiptsQuery } from './queries'

const route = getRouteApi('/receipts')
const STATUSES: Status[] = ['succeeded', 'failed', 'reverted', 'denied', 'quarantined', 'expired', 'cancelled', 'in_doubt']

export function Receipts() {
  const filter = route.useSearch()
  const navigate = useNavigate({ from: '/receipts' })
  const receipts = useInfiniteQuery(receiptsQuery(filter))
  const actionIds = useActionIds()
  const entries = receipts.data?.pages.flatMap(page => page.items) ?? []
  const set = (name: keyof typeof filter) => (value: string) =>
    void navigate({ search: old => ({ ...old, [name]: value || undefined }), replace: true })
  return (
    <ListPage
      title="Receipts"
      command={withFlags('countersign receipt list', filter)}
      head={
        <div className="mt-2 grid grid-cols-2 gap-2 lg:grid-cols-5">
          <FilterField label="Action" placeholder="action" value={filter.action} options={actionIds} onApply={set('action')} />
          <FilterField label="Session" placeholder="session id" value={filter.session} onApply={set('session')} />
          <select
            aria-label="Status"
            value={filter.status ?? ''}
            onChange={event => set('status')(event.target.value)}
            className={fieldClass}
          >
            <option value="">any status</option>
            {STATUSES.map(status => (
              <option key={status}>{status}</option>
            ))}
          </select>
          <select aria-label="Since" value={filter.since ?? ''} onChange={event => set('since')(event.target.value)} className={fieldClass}>
            <option value="">any time</option>
            {['1h', '24h', '7d', '30d'].map(since => (
              <option key={since} value={since}>{`last ${since}`}</option>
            ))}
          </select>
          <FilterField label="Trace id" placeholder="trace id" value={filter.trace_id} onApply={set('trace_id')} />
        </div>
      }
      above={<Fresh key={JSON.stringify(filter)} isNews={event => !!event.receipt} read={() => void receipts.refetch()} />}
      query={receipts}
      isEmpty={entries.length === 0}
      empty={<Nothing isFiltered={Object.values(filter).some(Boolean)} onClear={() => void navigate({ search: {} })} />}
    >
      <ul aria-busy={receipts.isPlaceholderData} className={cx('divide-y', receipts.isPlaceholderData && 'opacity-60')}>
        {entries.map(entry => (
          <Row key={entry.id} entry={entry} />
        ))}
      </ul>
    </ListPage>
  )
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) return <NoneFits what="receipt" onClear={onClear} />
  return (
    <Empty title="There is no receipt yet">
      <p>Every call that ends leaves one here.</p>
      <Copy text="countersign action invoke files.list" className="mt-3" />
    </Empty>
  )
}

function Row({ entry }: { entry: Entry }) {
  const body = bodyOf(entry)
  return (
    <li>
      <Link
        to="/receipts/$receipt"
        params={{ receipt: entry.id }}
        className="grid items-center gap-x-4 px-4 py-2.5 hover:bg-muted sm:grid-cols-[9rem_minmax(0,1fr)_auto] md:px-6"
      >
        {body.status ? <StatusBadge status={body.status} brief /> : <span className="text-xs">{entry.kind}</span>}
        <span className="min-w-0">
          <span className="font-medium">{body.action ?? entry.kind}</span> {body.tier && <TierBadge tier={body.tier as Tier} />}{' '}
          <Marks dryRun={body.dry_run} observed={body.observed} />
          <span className="block truncate text-xs text-muted-fg">{body.principal && <Who id={body.principal} />}</span>
        </span>
        <span className="text-xs text-muted-fg tabular-nums sm:text-right">
          <When at={timeOf(entry)} />
          <span className="max-sm:ml-2 sm:block">
            #{entry.seq}
            {body.timing?.exec_ms != null && ` · ${milliseconds(body.timing.exec_ms)}`}
          </span>
        </span>
      </Link>
    </li>
  )
}
