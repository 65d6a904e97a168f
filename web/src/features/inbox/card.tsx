// One call, with everything an approver needs to know and nothing to click for it.

import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Clock, TriangleAlert } from 'lucide-react'
import { type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { ApiError } from '@/api/client'
import type { Action, Fact as FactView, Foresight, Invocation } from '@/api/types'
import { Changes, Pre } from '@/components/changes'
import { DefinitionDiff } from '@/components/definition-diff'
import { Fact, Facts as FactList } from '@/components/facts'
import { Asked } from '@/components/list-page'
import { NearGrantsOf } from '@/components/near-grants'
import { Params } from '@/components/params'
import { StatusBadge, TierBadge } from '@/components/status'
import { Copy, cx, Failed, Foreign, Section, useLate, When } from '@/components/ui'
import { reviewQuery } from '@/lib/actions'
import { json, line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { countdown, counted } from '@/lib/format'
import { useNames } from '@/lib/names'
import { spacesQuery } from '@/lib/spaces'
import { capital, closedBecause, declares, hasDrifted, isOfAutomation, isOpen, statusOf, stepOf, successorOf, titleOf } from './model'
import { OfRun } from './of-run'
import { beforeQuery, factsQuery, sessionQuery } from './queries'
import { useShelf } from './shelf'

type Props = {
  item: Invocation
  action: Action | undefined
  ahead: Foresight | undefined
  aheadError: unknown
  isLooking: boolean
  isLookingAgain: boolean
  snoozedUntil?: string
}

export function Card({ item, action, ahead, aheadError, isLooking, isLookingAgain, snoozedUntil }: Props) {
  const now = useNow()
  const closed = closedBecause(item, now, useNames())
  const isPending = item.status === 'pending'
  const isCut = !ahead?.params && '_truncated' in item.params
  return (
    <article aria-label={item.action} className="px-4 py-5 md:px-6">
      <header>
        <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <TierBadge tier={item.tier} />
          <span className={cx('text-xs', item.class === 'danger' && 'font-semibold text-danger')}>{item.class}</span>
          {item.dry_run && <span className="rounded bg-muted px-1.5 text-xs">dry run</span>}
          <StatusBadge status={statusOf(item, now)} brief />
          <Copy text={item.id} />
          <Deadline item={item} now={now} />
        </div>
        <h2 className="mt-2 text-lg leading-snug font-semibold">
          <Foreign text={titleOf(item)} />
        </h2>
        {action && (
          <p className="text-xs text-muted-fg">
            titled “<Foreign text={action.title} />” by its source
          </p>
        )}
        <Asker item={item}>
          <Where item={item} />
        </Asker>
      </header>

      {closed && (
        <Notice tone="muted">
          {closed}
          <Successor item={item} now={now} />
        </Notice>
      )}
      {!closed && snoozedUntil && (
        <Notice tone="muted">
          Put off by you; it shows again <When at={snoozedUntil} />. Nothing is decided.
        </Notice>
      )}
      {item.clock_stopped && <Notice tone="danger">A kill switch is on: it stays pending, and its time is stopped.</Notice>}
      {item.caller_left && (
        <Notice tone="muted">Its caller has left: an approval is kept, and the call runs when its caller asks for it again.</Notice>
      )}
      {ahead?.blocked && (
        <Notice tone="danger">
          Cannot run now: <Foreign text={ahead.blocked.message} /> ({ahead.blocked.code})
        </Notice>
      )}
      {hasDrifted(item, action) && <Drift item={item} />}

      <Section title={isPending ? 'What will be sent' : 'What was asked'}>
        <Params params={(ahead?.params as Record<string, unknown> | undefined) ?? item.params} schema={action?.params_schema} />
        {isCut && <Notice tone="danger">Too large to be shown: this is not all that would be sent.</Notice>}
        <Edited item={item} />
      </Section>

      {isPending && (
        <Section title="What would change" aside={isLookingAgain && <LookingAgain />}>
          <WouldChange item={item} action={action} ahead={ahead} error={aheadError} isLooking={isLooking} />
        </Section>
      )}
      {item.result != null && (
        <Section title="What came back">
          <Pre text={json(item.result)} />
        </Section>
      )}

      <Facts item={item} action={action} ahead={ahead} isLooking={isLooking} />
    </article>
  )
}

/** What became void was asked again, perhaps: then that is the one to answer. */
function Successor({ item, now }: { item: Invocation; now: number }) {
  const { shelf } = useShelf()
  const next = successorOf(item, shelf.known.values(), now)
  if (!next) return null
  return (
    <Link to="/" search={{ call: next.id }} className="ml-2 text-primary underline">
      It was asked anew: answer that one
    </Link>
  )
}

function Deadline({ item, now }: { item: Invocation; now: number }) {
  if (!isOpen(item, now) || !item.expires_at) return null
  const isSoon = Date.parse(item.expires_at) - now < 60_000
  return (
    <span
      className={cx('ml-auto inline-flex items-center gap-1 text-xs tabular-nums', isSoon ? 'font-semibold text-danger' : 'text-muted-fg')}
    >
      <Clock aria-hidden className="size-3.5" /> expires in {countdown(item.expires_at, now)}
      {isSoon && (
        <span className="sr-only" aria-live="polite">
          less than a minute left
        </span>
      )}
    </span>
  )
}

/** Who asks, and in their own words why. A step of an automation names it, its run and itself. */
export function Asker({ item, children }: { item: Invocation; children?: ReactNode }) {
  const session = useQuery(sessionQuery(item.session_id))
  const nameOf = useNames()
  const title = item.session_title || session.data?.title
  const step = stepOf(item)
  if (step)
    return (
      <>
        <OfRun item={item} step={step} />
        {children}
      </>
    )
  return (
    <div className="mt-2 text-sm">
      <p className="text-muted-fg">
        {title && (
          <>
            <Link
              to="/policies/sessions/$session"
              params={{ session: item.session_id }}
              className="font-medium text-fg hover:underline"
              title="The session"
            >
              <Foreign text={title} />
            </Link>{' '}
            ·{' '}
          </>
        )}
        <span className="font-mono text-xs" title={item.principal}>
          {line(nameOf(item.principal))}
        </span>{' '}
        · asked <When at={item.created_at} />
      </p>
      {children}
      <Claimed item={item} />
    </div>
  )
}

/** Whose call it is, and where it acts. */
function Where({ item }: { item: Invocation }) {
  const spaces = useQuery({ ...spacesQuery, staleTime: 60_000 })
  const nameOf = useNames()
  const space = spaces.data?.find(each => each.id === item.space_id)
  const owner = item.owner_id && `user:${item.owner_id}`
  return (
    <p className="foreign mt-1 text-sm text-muted-fg">
      {owner && owner !== item.principal && `for ${line(nameOf(owner))} · `}space{' '}
      {space ? `${line(space.name)} (${space.band})` : item.space_id}
    </p>
  )
}

/** What the caller says of its call. Nothing judges it. */
function Claimed({ item: { reason, claimed } }: { item: Invocation }) {
  const { confidence, rollback_plan: plan } = claimed ?? {}
  if (!reason && confidence == null && plan == null) return null
  return (
    <blockquote className="mt-2 border-l-2 pl-3">
      {reason && <Words label="The agent’s own words" text={`“${reason}”`} />}
      {confidence != null && <Words label="Confidence given" text={String(confidence)} />}
      {plan != null && <Words label="Rollback plan given" text={typeof plan === 'string' ? plan : JSON.stringify(plan)} />}
    </blockquote>
  )
}

/** Words of others: three lines of them until a person asks for all, so that they push nothing off the screen. */
function Words({ label, text }: { label: string; text: string }) {
  const box = useRef<HTMLParagraphElement>(null)
  const [isLong, setLong] = useState(false)
  const [isWhole, setWhole] = useState(false)
  // Measured each time it is shown, for its width may be another by then.
  useLayoutEffect(() => {
    const { scrollHeight = 0, clientHeight = 0 } = box.current ?? {}
    if (!isWhole) setLong(scrollHeight > clientHeight)
  })
  return (
    <>
      <p ref={box} className={isWhole ? undefined : 'line-clamp-3'}>
        <span className="text-xs text-muted-fg">{label}: </span>
        <Foreign text={text} />
      </p>
      {isLong && (
        <button type="button" aria-expanded={isWhole} className="text-xs text-primary underline" onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Show less' : 'Show all'}
        </button>
      )}
    </>
  )
}

function WouldChange({
  item,
  action,
  ahead,
  error,
  isLooking,
}: {
  item: Invocation
  action: Action | undefined
  ahead: Foresight | undefined
  error: unknown
  isLooking: boolean
}) {
  if (isLooking) return <p className="text-muted-fg">Looking ahead…</p>
  if (error) return <p className="text-muted-fg">Not known: {error instanceof ApiError ? line(error.message) : 'it could not be asked.'}</p>
  return (
    <>
      {ahead?.ran_code && (
        <p className="mb-2 text-xs text-muted-fg">Code of the package {item.source} was run to find this out, without effect.</p>
      )}
      {ahead?.changes ? (
        <Changes report={ahead.changes as Record<string, unknown>} />
      ) : (
        <p className="text-muted-fg">
          {!ahead
            ? 'Not looked up: that is done for people who may answer the call.'
            : ahead.unknown
              ? capital(line(ahead.unknown))
              : action && !action.dry_run_supported
                ? 'This source cannot dry-run it.'
                : 'Nothing is known of it.'}
        </p>
      )}
      {!!action?.effects?.length && <p className="mt-1 text-muted-fg">Its definition says that it {declares(action.effects)}.</p>}
    </>
  )
}

function LookingAgain() {
  if (!useLate()) return null
  return <span className="text-xs text-muted-fg">Looking again…</span>
}

function Drift({ item }: { item: Invocation }) {
  const review = useQuery(reviewQuery(item.action))
  const { base, mode } = item.decision
  return (
    <div className="mt-4 rounded-md border border-danger bg-removed p-4">
      <p className="flex items-center gap-2 font-medium">
        <TriangleAlert aria-hidden className="size-4 shrink-0 text-danger" />
        {base === mode
          ? 'The definition of this action changed since it was reviewed.'
          : `“${base}” became “${mode}” because the definition changed.`}
      </p>
      {review.data && <DefinitionDiff review={review.data} />}
      <Asked query={review} />
      <Link to="/actions" search={{ action: item.action }} className="mt-3 inline-block text-primary underline">
        Review the definition
      </Link>
    </div>
  )
}

function Edited({ item }: { item: Invocation }) {
  const { edit } = item
  const nameOf = useNames()
  if (!edit) return null
  const at = (value: unknown, pointer: string): unknown =>
    pointer
      .split('/')
      .slice(1)
      .reduce<unknown>(
        (inner, key) => (inner as Record<string, unknown> | undefined)?.[key.replaceAll('~1', '/').replaceAll('~0', '~')],
        value,
      )
  return (
    <div className="mt-3 rounded-md border p-3 text-xs">
      <p className="mb-1 font-medium">
        Edited by {line(nameOf(edit.by))} <When at={edit.at} />
      </p>
      {edit.changed.map(pointer => (
        <div key={pointer} className="font-mono">
          <p className="foreign bg-removed px-2">
            - {line(pointer)}: {line(JSON.stringify(at(edit.proposed_params, pointer)) ?? 'nothing')}
          </p>
          <p className="foreign bg-added px-2">
            + {line(pointer)}: {line(JSON.stringify(at(item.params, pointer)) ?? 'nothing')}
          </p>
        </div>
      ))}
    </div>
  )
}

/** The facts of a call that have a section of their own, by their labels; the others are what an approval covers. */
const WHY = new Set(['Decision', 'Asked by', 'Session holds', 'Gate error', 'Approvals', 'Approved by', 'Answered by'])
const BACK = new Set(['Reversible', 'Verified by', 'Verified with', 'Checks', 'Repair', 'Rollback', 'Reverts', 'Reverted by'])
const AFTER = new Set(['By grant', 'Observed', 'Resumed', 'Changed', 'Restored', 'May have changed', 'Settled by', 'Error', 'Took'])
/** What the card shows elsewhere, with what can be clicked. */
const ELSEWHERE = new Set([
  'Requested by',
  'Reason given',
  'Space',
  'Confidence given',
  'Rollback plan',
  'Edited by',
  'Edited',
  'Earlier calls',
  'Receipt',
])

function Facts({ item, action, ahead, isLooking }: Pick<Props, 'item' | 'action' | 'ahead' | 'isLooking'>) {
  const before = useQuery(beforeQuery(item))
  const isPending = item.status === 'pending'
  const known = isPending ? ahead?.facts : undefined
  const read = useQuery({ ...factsQuery(item), enabled: !known && !isLooking })
  const facts = known ?? read.data ?? []
  const became = facts.filter(({ label }) => AFTER.has(label))
  return (
    <>
      <Section title={isPending ? 'Why you are asked' : 'How it was decided'}>
        <Told facts={facts.filter(({ label }) => WHY.has(label))} />
        {action && !isLooking && (
          <NearGrantsOf item={item} params={(ahead?.params as Record<string, unknown> | undefined) ?? item.params} />
        )}
      </Section>

      <Section title="Can it be taken back">
        <Told facts={facts.filter(({ label }) => BACK.has(label))} />
      </Section>

      <Section title="What happened before">
        {before.error ? (
          <Failed error={before.error as ApiError} retry={() => void before.refetch()} />
        ) : (
          <Before item={item} items={before.data} />
        )}
      </Section>

      {became.length > 0 && (
        <Section title="What became of it">
          <Told facts={became} />
        </Section>
      )}

      <Section title={isPending ? 'What an approval covers' : 'What it is bound to'}>
        <Told facts={facts.filter(({ label }) => ![WHY, BACK, AFTER, ELSEWHERE].some(labels => labels.has(label)))} />
        <p>
          {item.decision.rules_version != null && `Decided under version ${item.decision.rules_version} of the rules.`}
          {isPending && item.expires_at && (
            <>
              {' '}
              Its time ends <When at={item.expires_at} />.
            </>
          )}
        </p>
        <p className="mt-2">
          <Copy text={`countersign invocation show ${item.id}`} />
        </p>
        {item.receipt && (
          <p className="mt-1">
            <Link className="text-primary underline" to="/receipts/$receipt" params={{ receipt: item.receipt.id }}>
              Receipt {item.receipt.id}
            </Link>
          </p>
        )}
      </Section>
    </>
  )
}

const TONES = { warn: 'text-warn', danger: 'text-danger' }

/** Facts as the server tells them. */
function Told({ facts }: { facts: FactView[] }) {
  return (
    <FactList>
      {facts.map(({ label, text, at, more, tone }) => (
        <Fact key={`${label} ${text} ${at} ${more}`} name={label}>
          <span className={tone ? TONES[tone] : undefined}>
            <Foreign text={text} />
            {at && <When at={at} />}
            {more && <Foreign text={more} />}
          </span>
        </Fact>
      ))}
    </FactList>
  )
}

function Before({ item, items }: { item: Invocation; items: Invocation[] | undefined }) {
  if (!items) return <p className="text-muted-fg">…</p>
  const whose = isOfAutomation(item) ? 'by this automation' : 'in this session'
  if (items.length === 0) return <p className="text-muted-fg">No earlier call of this action {whose}.</p>
  const succeeded = items.filter(item => item.status === 'succeeded').length
  return (
    <>
      <p>
        {succeeded} of {counted(items.length, 'call')} of this action {whose} succeeded.
      </p>
      <ul className="mt-1 space-y-1">
        {items.slice(0, 3).map(item => (
          <li key={item.id} className="flex min-w-0 items-center gap-2 text-xs">
            <StatusBadge status={item.status} brief />
            <Foreign text={titleOf(item)} className="truncate" />
            <span className="text-muted-fg">
              <When at={item.created_at} />
            </span>
            {item.receipt && (
              <Link className="ml-auto shrink-0 text-primary underline" to="/receipts/$receipt" params={{ receipt: item.receipt.id }}>
                receipt
              </Link>
            )}
          </li>
        ))}
      </ul>
    </>
  )
}

function Notice({ tone, children }: { tone: 'muted' | 'danger'; children: ReactNode }) {
  return (
    <p className={cx('mt-4 rounded-md border px-3 py-2 font-medium', tone === 'danger' ? 'border-danger bg-removed' : 'bg-muted')}>
      {children}
    </p>
  )
}
