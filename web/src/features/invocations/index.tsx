// Every call there was and is, by status.

import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import type { Invocation, Status } from '@/api/types'
import { FilterField } from '@/components/filter-field'
import { Fresh } from '@/components/fresh'
import { ListPage, NoneFits } from '@/components/list-page'
import { Tabs } from '@/components/page-head'
import { Marks, StatusBadge, TierBadge } from '@/components/status'
import { Copy, cx, Empty, Foreign, fieldClass, When } from '@/components/ui'
import { titleOf } from '@/features/inbox/model'
import { useActionIds } from '@/lib/actions'
import { counted, milliseconds } from '@/lib/format'
import { useNames } from '@/lib/names'
import { invocationsQuery } from './queries'

const route = getRouteApi('/invocations')
const STATUSES: readonly Status[] = [
  'pending',
  'approved',
  'running',
  'succeeded',
  'failed',
  'reverted',
  'denied',
  'quarantined',
  'expired',
  'cancelled',
  'in_doubt',
]

export function Invocations() {
  const filter = route.useSearch()
  const navigate = useNavigate({ from: '/invocations' })
  const calls = useInfiniteQuery(invocationsQuery(filter))
  const items = calls.data?.pages.flatMap(page => page.items) ?? []
  const total = calls.data?.pages[0]?.total
  const actionIds = useActionIds()
  const set = (name: keyof typeof filter) => (value: string) =>
    void navigate({ search: old => ({ ...old, [name]: value || undefined }), replace: true })
  const isFiltered = Object.values(filter).some(Boolean)
  return (
    <ListPage
      title="Invocations"
      command={`countersign invocation list${filter.status ? ` --status ${filter.status}` : ''}`}
      head={
        <>
          <div className="mt-2 grid grid-cols-2 gap-2 sm:grid-cols-3">
            <FilterField label="Action" placeholder="action" value={filter.action} options={actionIds} onApply={set('action')} />
            <FilterField label="Session" placeholder="session id" value={filter.session} onApply={set('session')} />
            <select aria-label="Tier" value={filter.tier ?? ''} onChange={event => set('tier')(event.target.value)} className={fieldClass}>
              <option value="">any tier</option>
              {['R0', 'R1', 'R2', 'R3', 'R4'].map(tier => (
                <option key={tier}>{tier}</option>
              ))}
            </select>
          </div>
          <Tabs
            label="Status"
            at={filter.status ?? ''}
            tabs={[{ name: '', label: 'All' }, ...STATUSES.map(status => ({ name: status as string, label: status.replace('_', ' ') }))]}
            onPick={status => void navigate({ search: old => ({ ...old, status: status || undefined }) })}
          />
        </>
      }
      above={
        <Fresh key={JSON.stringify(filter)} isNews={event => event.type.startsWith('invocation.')} read={() => void calls.refetch()} />
      }
      query={calls}
      isEmpty={items.length === 0}
      empty={<Nothing isFiltered={isFiltered} onClear={() => void navigate({ search: {} })} />}
    >
      {total != null && <p className="px-4 pt-2 text-xs text-muted-fg tabular-nums md:px-6">{counted(total, 'call')}</p>}
      <ul aria-busy={calls.isPlaceholderData} className={cx('divide-y', calls.isPlaceholderData && 'opacity-60')}>
        {items.map(item => (
          <Row key={item.id} item={item} />
        ))}
      </ul>
    </ListPage>
  )
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) return <NoneFits what="call" onClear={onClear} />
  return (
    <Empty title="No call was made yet">
      <p>A call appears here as soon as an agent or a person asks for it.</p>
      <Copy text="countersign action invoke files.list" className="mt-3" />
    </Empty>
  )
}

function Row({ item }: { item: Invocation }) {
  const nameOf = useNames()
  // The agent of a session has no name but the title of the session.
  const isOfSession = item.session_title && item.principal === `agent:${item.session_id}`
  return (
    <li>
      <Link
        to="/invocations/$invocation"
        params={{ invocation: item.id }}
        className="grid items-center gap-x-4 px-4 py-2.5 hover:bg-muted sm:grid-cols-[9rem_minmax(0,1fr)_auto] md:px-6"
      >
        <StatusBadge status={item.status} brief />
        <span className="min-w-0">
          <span className="flex min-w-0 items-baseline gap-2">
            <Foreign text={titleOf(item)} className="truncate font-medium" /> <TierBadge tier={item.tier} />{' '}
            <Marks dryRun={item.dry_run} observed={!!item.observed} />
          </span>
          <span className="block truncate text-xs text-muted-fg">
            {item.session_title && <Foreign text={item.session_title} />}
            {!isOfSession && (
              <span title={item.principal}>
                {item.session_title && ' · '}
                <Foreign text={nameOf(item.principal)} />
              </span>
            )}
          </span>
        </span>
        <span className="text-xs text-muted-fg tabular-nums sm:text-right">
          <When at={item.created_at} />
          {item.duration_ms != null && (
            <span className="sm:block">
              <span className="sm:hidden"> · </span>
              {item.waited_ms != null && `waited ${milliseconds(item.waited_ms)} · `}
              {milliseconds(item.duration_ms)}
            </span>
          )}
        </span>
      </Link>
    </li>
  )
}
