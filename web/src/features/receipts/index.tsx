// Receipts: what was done, by whom, under which rule. Search them, open one, verify it.
import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import type { ApiError } from '@/api/client'
import type { Entry, Status, Tier } from '@/api/types'
import { FilterField } from '@/components/filter-field'
import { Fresh } from '@/components/fresh'
import { PageHead } from '@/components/page-head'
import { Marks, StatusBadge, TierBadge } from '@/components/status'
import { Button, Copy, cx, Empty, Failed, fieldClass, Loading, When } from '@/components/ui'
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
    <div className="flex h-full flex-col">
      <PageHead title="Receipts" command={withFlags('countersign receipt list', filter)}>
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
      </PageHead>
      <Fresh key={JSON.stringify(filter)} isNews={event => !!event.receipt} read={() => void receipts.refetch()} />
      <div className="min-h-0 flex-1 overflow-auto">
        {receipts.error && <Failed error={receipts.error as ApiError} retry={() => void receipts.refetch()} />}
        {receipts.isPending ? (
          <Loading />
        ) : entries.length === 0 ? (
          !receipts.error && <Nothing isFiltered={Object.values(filter).some(Boolean)} onClear={() => void navigate({ search: {} })} />
        ) : (
          <ul aria-busy={receipts.isPlaceholderData} className={cx('divide-y', receipts.isPlaceholderData && 'opacity-60')}>
            {entries.map(entry => (
              <Row key={entry.id} entry={entry} />
            ))}
          </ul>
        )}
        {receipts.hasNextPage && (
          <div className="p-4 text-center">
            <Button busy={receipts.isFetchingNextPage} onClick={() => void receipts.fetchNextPage()}>
              Older
            </Button>
          </div>
        )}
      </div>
    </div>
  )
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered)
    return (
      <Empty title="No receipt fits">
        <Button onClick={onClear}>Show all</Button>
      </Empty>
    )
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
