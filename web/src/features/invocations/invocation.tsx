// One call on its way through the stages: which verdict each gave, who answered, and where the time went.

import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import type { ApiError } from '@/api/client'
import type { Invocation } from '@/api/types'
import { Pre } from '@/components/changes'
import { Asked } from '@/components/list-page'
import { NearGrantsOf } from '@/components/near-grants'
import { Params } from '@/components/params'
import { Rail } from '@/components/rail'
import { Marks, StatusBadge, TierBadge } from '@/components/status'
import { Copy, Failed, Foreign, Loading, Section, When } from '@/components/ui'
import { MadeArtifacts } from '@/features/artifacts/made'
import { closedBecause, stepOf, titleOf } from '@/features/inbox/model'
import { OfRun } from '@/features/inbox/of-run'
import { entriesQuery } from '@/features/receipts/queries'
import { actionQuery } from '@/lib/actions'
import { json, line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { milliseconds } from '@/lib/format'
import { useNames } from '@/lib/names'
import { useReadAgain } from '@/lib/refresh'
import { parts, since, timeline } from './model'
import { oneQuery } from './queries'

const route = getRouteApi('/invocations/$invocation')

export function OneInvocation() {
  const { invocation: id } = route.useParams()
  const read = useQuery(oneQuery(id))
  const entries = useQuery(entriesQuery(id))
  const item = read.data?.invocation
  const nameOf = useNames()
  const action = useQuery({ ...actionQuery(item?.action ?? ''), enabled: !!item })
  useReadAgain(event => event.subject === id, [oneQuery(id).queryKey, entriesQuery(id).queryKey])
  if (read.error) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  if (!item) return <Loading />
  const result = read.data?.result ?? item.result
  return (
    <div className="h-full overflow-auto px-4 py-4 md:px-6">
      <Link to="/invocations" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Invocations
      </Link>
      <Head item={item} />

      <Section title="What happened" aside={<Copy text={`countersign explain ${id}`} />}>
        <Spent item={item} />
        <Rail stages={timeline(item, entries.data?.items ?? [], nameOf)} beside={at => since(item.created_at, at)} />
        <Asked query={entries} />
        {action.data && <NearGrantsOf item={item} params={item.redacted ? undefined : item.params} />}
      </Section>

      <Section title="What was asked">
        <Params params={item.params} schema={action.data?.params_schema} />
      </Section>
      {result != null && (
        <Section title="What came back">
          <Pre text={json(result)} />
        </Section>
      )}
      {!!item.changed_files?.length && (
        <Section title="What it changed">
          <ul className="font-mono text-xs">
            {item.changed_files.map(file => (
              <li key={file.path} className="foreign">
                {file.change} {line(file.path)}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {item.completed_at && <MadeArtifacts of={{ invocation: id }} />}
      <Section title="Where else to look">
        <p className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <Link className="text-primary underline" to="/invocations" search={{ session: item.session_id }}>
            Calls of its session
          </Link>
          <Link className="text-primary underline" to="/invocations" search={{ action: item.action }}>
            Calls of its action
          </Link>
          <Link className="text-primary underline" to="/events" search={{ subject: item.id }}>
            Its events
          </Link>
          <Copy text={item.trace_id} label={`trace ${item.trace_id}`} />
          {item.status === 'succeeded' && !item.reverted_by && action.data?.reversibility === 'reversible' && (
            <Copy text={`countersign invocation revert ${id}`} />
          )}
        </p>
      </Section>
    </div>
  )
}

function Head({ item }: { item: Invocation }) {
  const nameOf = useNames()
  const closed = closedBecause(item, useNow(), nameOf)
  const step = stepOf(item)
  return (
    <header className="mt-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <StatusBadge status={item.status} />
        <TierBadge tier={item.tier} />
        <Marks dryRun={item.dry_run} observed={!!item.observed} />
        <Copy text={item.id} />
        <span className="text-xs text-muted-fg">
          asked <When at={item.created_at} />
        </span>
      </div>
      <h1 className="mt-1 text-lg font-semibold">
        <Foreign text={titleOf(item)} />
      </h1>
      {step ? (
        <OfRun item={item} step={step} />
      ) : (
        <p className="foreign text-xs text-muted-fg" title={item.principal}>
          {line(nameOf(item.principal))}
        </p>
      )}
      {item.reason && !step && (
        <p className="mt-1">
          <span className="text-xs text-muted-fg">The agent’s own words: </span>
          <Foreign text={`“${item.reason}”`} />
        </p>
      )}
      {closed && <p className="foreign mt-2">{closed}</p>}
      <p className="mt-2 flex flex-wrap gap-x-4 gap-y-1">
        {item.status === 'pending' && !closed && (
          <Link className="font-medium text-primary underline" to="/" search={{ call: item.id }}>
            Answer it in the inbox
          </Link>
        )}
        {(item.status === 'in_doubt' || item.status === 'quarantined') && (
          <Link className="font-medium text-primary underline" to="/" search={{ tab: 'attention', call: item.id }}>
            Settle it
          </Link>
        )}
        {item.receipt && (
          <Link className="text-primary underline" to="/receipts/$receipt" params={{ receipt: item.receipt.id }}>
            Receipt {item.receipt.id}
          </Link>
        )}
      </p>
    </header>
  )
}

const FILLS = ['fill-muted-fg', 'fill-warn', 'fill-primary']

/** Where the time went, as a bar and in words. */
function Spent({ item }: { item: Invocation }) {
  const all = parts(item)
  const total = all.reduce((sum, part) => sum + part.ms, 0)
  if (total === 0) return null
  const words = all.map(part => `${part.name} ${milliseconds(part.ms)}`).join(' · ')
  return (
    <div className="mb-4">
      <svg role="img" aria-label={words} viewBox="0 0 100 2" preserveAspectRatio="none" className="h-2 w-full rounded">
        {all.map((part, at) => (
          <rect
            key={part.name}
            x={(all.slice(0, at).reduce((sum, before) => sum + before.ms, 0) / total) * 100}
            width={(part.ms / total) * 100}
            height={2}
            className={FILLS[['decided and queued', 'waited for people', 'ran'].indexOf(part.name)]}
          />
        ))}
      </svg>
      <p className="mt-1 text-xs text-muted-fg tabular-nums">{words}</p>
    </div>
  )
}
