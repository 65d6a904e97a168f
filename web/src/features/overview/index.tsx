// The overview: what waits, what agents did lately, and what is left to set up.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Asked } from '@/components/list-page'
import { PageHead, Tabs } from '@/components/page-head'
import { Empty, Foreign, Loading, When } from '@/components/ui'
import { isOpen } from '@/features/inbox/model'
import { useShelf } from '@/features/inbox/shelf'
import { serverNow, useNow } from '@/lib/clock'
import { useOrgEvents } from '@/lib/events'
import { counted, milliseconds, span } from '@/lib/format'
import { useSoon } from '@/lib/soon'
import { deadCountQuery, driftedQuery } from '@/lib/waiting'
import { Chart, Columns, Legend, type Series, Share, TimeBars } from './charts'
import { buckets, type Call, DECISIONS, decisionOf, FAILURES, lengthOf, topActions, totals, waits } from './model'
import { callsQuery, statusQuery } from './queries'
import { RANGES, type Range } from './range'
import { FirstSteps } from './steps'

const route = getRouteApi('/overview')
const NAMES: Record<Range, string> = { '24h': 'Last 24 hours', '7d': 'Last 7 days', '30d': 'Last 30 days' }
/** How often the calls are counted anew while they come in. */
const COUNT_MS = 5_000

export function Overview() {
  const { range = '24h' } = route.useSearch()
  const navigate = useNavigate({ from: '/overview' })
  const client = useQueryClient()
  const read = useQuery(callsQuery(range))
  const status = useQuery(statusQuery)
  const soon = useSoon(
    () =>
      Promise.all(
        [statusQuery, callsQuery(range), deadCountQuery].map(query => client.invalidateQueries({ queryKey: [...query.queryKey] })),
      ),
    // What had to be read in several pages is read again less often.
    read.data && read.data.calls.length > 100 ? 12 * COUNT_MS : COUNT_MS,
  )
  useOrgEvents(soon)
  const calls = read.data?.calls
  return (
    <div className="flex h-full flex-col">
      <PageHead title="Overview" command="countersign status">
        <Tabs
          label="Range"
          at={range}
          tabs={RANGES.map(name => ({ name, label: NAMES[name] }))}
          onPick={name => void navigate({ search: { range: name === '24h' ? undefined : name }, replace: true })}
        />
      </PageHead>
      <div className="relative min-h-0 flex-1 space-y-4 overflow-auto p-4 md:p-6">
        {calls && <FirstSteps calls={calls} />}
        <Asked query={status} />
        <Tiles inDoubt={status.data?.in_doubt} median={calls && waits(calls)?.median} />
        <Asked query={read} />
        {read.isPending && <Loading />}
        {calls?.length === 0 && (
          <Empty title="No call in this time">
            <Link to="/actions" search={{ action: 'files.write_text' }} className="text-primary underline">
              Make one of your own
            </Link>
          </Empty>
        )}
        {calls && calls.length > 0 && <Charts calls={calls} range={range} cutAt={read.data?.cutAt} />}
      </div>
    </div>
  )
}

function Tiles({ inDoubt, median }: { inDoubt?: number; median?: number }) {
  const { shelf, listed } = useShelf()
  const now = useNow()
  const actions = useQuery(driftedQuery)
  const open = [...shelf.known.values()].filter(item => isOpen(item, now) && !shelf.snoozed.has(item.id))
  const oldest = open.map(item => item.created_at).sort()[0]
  const drifted = actions.data?.length
  const dead = useQuery(deadCountQuery).data
  return (
    <dl className="grid grid-cols-2 gap-3 md:grid-cols-3 xl:grid-cols-6">
      <Tile name="Waiting now" link={words => <Link to="/">{words}</Link>}>
        {listed.isSuccess ? open.length : '…'}
      </Tile>
      <Tile name="Oldest wait">{oldest ? span((now - Date.parse(oldest)) / 1000) : '–'}</Tile>
      <Tile name="Median answer">{median === undefined ? '–' : milliseconds(median)}</Tile>
      <Tile
        name="In doubt"
        isBad={!!inDoubt}
        link={words => (
          <Link to="/" search={{ tab: 'attention' }}>
            {words}
          </Link>
        )}
      >
        {inDoubt ?? '…'}
      </Tile>
      <Tile
        name="Drifted actions"
        isBad={!!drifted}
        link={words => (
          <Link to="/sources" search={{ show: 'drifted' }}>
            {words}
          </Link>
        )}
      >
        {drifted ?? '…'}
      </Tile>
      <Tile
        name="Dead letters"
        isBad={!!dead}
        link={words => (
          <Link to="/events" search={{ tab: 'dead' }}>
            {words}
          </Link>
        )}
      >
        {dead === '' ? 0 : (dead ?? '…')}
      </Tile>
    </dl>
  )
}

function Tile({
  name,
  children,
  isBad,
  link,
}: {
  name: string
  children: ReactNode
  isBad?: boolean
  link?: (words: ReactNode) => ReactNode
}) {
  return (
    <div className="relative flex flex-col rounded-lg border bg-panel px-4 py-3 has-[a:hover]:bg-muted [&_a]:after:absolute [&_a]:after:inset-0">
      <dt className="text-xs text-muted-fg">{link ? link(name) : name}</dt>
      <dd className={`text-xl font-semibold tabular-nums ${isBad ? 'text-danger' : ''}`}>{children}</dd>
    </div>
  )
}

const DECIDED: readonly Series[] = [
  { name: DECISIONS[0], fill: 'fill-ok', dot: 'bg-ok' },
  { name: DECISIONS[1], fill: 'fill-warn', dot: 'bg-warn' },
  { name: DECISIONS[2], fill: 'fill-danger', dot: 'bg-danger' },
]
const FAILED: readonly Series[] = [
  { name: 'failed', fill: 'fill-danger', dot: 'bg-danger' },
  { name: 'reverted', fill: 'fill-warn', dot: 'bg-warn' },
  { name: 'in doubt', fill: 'fill-muted-fg', dot: 'bg-muted-fg' },
]

function Charts({ calls, range, cutAt }: { calls: readonly Call[]; range: Range; cutAt?: string }) {
  const now = serverNow()
  const decided = buckets(calls, range, now, DECISIONS, decisionOf)
  const failures = buckets(calls, range, now, FAILURES, call => call.status)
  const [decisions, failed] = [totals(decided, DECISIONS), totals(failures, FAILURES)]
  const waited = waits(calls)
  const top = topActions(calls, 6)
  const sum = failed.reduce((all, count) => all + count, 0)
  return (
    <>
      {cutAt && (
        <p role="status" className="rounded-md border bg-muted px-3 py-2">
          Of the newest {counted(calls.length, 'call')}: the oldest of them was made <When at={cutAt} />.
        </p>
      )}
      <div className="grid gap-4 lg:grid-cols-2">
        <Chart title="Calls by decision" number={counted(calls.length, 'call')}>
          <TimeBars all={decided} series={DECIDED} label={`Calls by decision, each bar one ${lengthOf(range)}`} />
          <Legend series={DECIDED} counts={decisions} />
        </Chart>
        <Chart title="Time until people answered" number={waited ? `${milliseconds(waited.median)} median` : 'nobody answered'}>
          {waited ? (
            <>
              <Columns
                bars={waited.bars.map(bar => ({ ...bar, name: bar.name === 'more' ? 'more' : `< ${bar.name}` }))}
                label="Answers by time"
              />
              <p className="mt-3 text-xs text-muted-fg">
                {counted(waited.count, 'answer')} · 95 of 100 within {milliseconds(waited.p95)}
              </p>
            </>
          ) : (
            <p className="text-muted-fg">No call of this time was answered by a person.</p>
          )}
        </Chart>
        <Chart title="Failures" number={sum === 0 ? 'none' : `${sum} of ${counted(calls.length, 'call')}`}>
          {sum === 0 ? (
            <p className="flex-1 text-muted-fg">Nothing failed in this time.</p>
          ) : (
            <TimeBars all={failures} series={FAILED} label={`Failures, each bar one ${lengthOf(range)}`} />
          )}
          <Legend
            series={FAILED}
            counts={failed}
            wrap={(name, words) => (
              <Link
                to="/invocations"
                search={{ status: name.replace(' ', '_') }}
                className="inline-flex items-center gap-1.5 underline decoration-muted-fg/40 underline-offset-2"
              >
                {words}
              </Link>
            )}
          />
        </Chart>
        <Chart title="Top actions" number={counted(new Set(calls.map(call => call.action)).size, 'action')}>
          <ol className="space-y-2">
            {top.map(one => (
              <li key={one.action}>
                <p className="flex items-baseline justify-between gap-3">
                  <Link
                    to="/invocations"
                    search={{ action: one.action }}
                    className="min-w-0 truncate font-mono text-[13px] hover:underline"
                  >
                    <Foreign text={one.action} />
                  </Link>
                  <span className="shrink-0 text-xs tabular-nums">
                    {one.failed > 0 && <span className="text-danger">{one.failed} failed · </span>}
                    {one.count}
                  </span>
                </p>
                <Share part={one.count} of={top[0]?.count ?? 1} />
              </li>
            ))}
          </ol>
        </Chart>
      </div>
    </>
  )
}
