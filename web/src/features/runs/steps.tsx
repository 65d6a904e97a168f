// The steps of a run as a rail, and one of them whole: what went wrong first, then what came back and what was asked.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Run } from '@/api/types'
import { Pre } from '@/components/changes'
import { Params } from '@/components/params'
import { Rail } from '@/components/rail'
import { StepBadge } from '@/components/run-status'
import { StatusBadge } from '@/components/status'
import { Button, Copy, cx, Failed, Foreign, Section, When } from '@/components/ui'
import { MadeArtifacts } from '@/features/artifacts/made'
import { Answer } from '@/features/inbox/answer'
import type { Denials } from '@/features/inbox/denials'
import { since, timeline } from '@/features/invocations/model'
import { oneQuery } from '@/features/invocations/queries'
import { entriesQuery } from '@/features/receipts/queries'
import { actionQuery } from '@/lib/actions'
import { automationQuery } from '@/lib/automations'
import { json, line } from '@/lib/clean'
import { milliseconds } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { callsOf, isFinal, type Line, noRerunFrom, shares, stepThatMade } from './model'
import { earlierCallsQuery, rerun } from './queries'
import { useFired } from './start'

export function StepRail({ lines, chosen, onPick }: { lines: readonly Line[]; chosen: Line | undefined; onPick: (id: string) => void }) {
  const long = shares(lines)
  return (
    <ol className="py-2">
      {lines.map((each, at) => (
        <li key={`${each.phase} ${each.id}`}>
          {each.phase === 'on_failure' && each.index === 0 && (
            <p className="px-4 pt-3 pb-1 text-xs font-semibold text-muted-fg">after the failure</p>
          )}
          <button
            type="button"
            aria-current={each === chosen ? 'step' : undefined}
            onClick={() => onPick(each.id)}
            className={cx(
              'block w-full border-l-2 px-4 py-2 text-left max-md:min-h-11',
              each === chosen ? 'border-l-primary bg-accent' : 'border-l-transparent hover:bg-muted',
            )}
          >
            <span className="flex items-baseline justify-between gap-2">
              <Foreign text={each.id} className="truncate font-medium" />
              <StepBadge state={each.state} />
            </span>
            <span className="flex items-baseline justify-between gap-2 text-xs text-muted-fg">
              <Foreign text={each.action} className="truncate font-mono" />
              <span className="shrink-0 tabular-nums">
                {each.record?.copied_from ? 'taken over' : each.ms !== undefined && milliseconds(each.ms)}
              </span>
            </span>
            <span aria-hidden className="mt-1 block h-1 rounded bg-muted">
              <span
                className={cx('block h-1 rounded', each.state === 'failed' || each.state === 'timed_out' ? 'bg-danger' : 'bg-primary')}
                style={{ width: `${long[at]}%` }}
              />
            </span>
          </button>
        </li>
      ))}
    </ol>
  )
}

export function StepPanel({ run, line: step, denials }: { run: Run; line: Line; denials: Denials }) {
  const { record } = step
  const isHere = step.state === 'waiting' || step.state === 'running'
  const invocation = record?.invocation_id ?? (isHere ? run.invocation_id : undefined)
  // A person answers here what waits for one; the card shows all of the call.
  if (isHere && run.status === 'waiting' && invocation && run.waiting_for !== 'retry')
    return (
      <>
        <StepHead run={run} step={step} />
        <div className="min-h-0 flex-1">
          <Answer id={invocation} denials={denials} isToSettle={false} />
        </div>
      </>
    )
  return (
    <>
      <StepHead run={run} step={step} />
      <div className="px-4 pb-6 md:px-6">
        {record?.error && (
          <p role="alert" className="foreign mt-4 rounded-md border border-danger bg-removed p-3">
            <span className="font-medium">{line(record.error.message)}</span> ({record.error.code})
          </p>
        )}
        {!record && <p className="mt-4 text-muted-fg">{NOT_YET[step.state]}</p>}
        {record?.status === 'skipped' && <p className="mt-4 text-muted-fg">Its condition did not hold, so nothing was called.</p>}
        {record?.copied_from && (
          <p className="mt-4 text-muted-fg">
            Its result was taken from{' '}
            <Link to="/runs/$run" params={{ run: record.copied_from }} className="text-primary underline">
              an earlier run
            </Link>
            : it was not called again.
          </p>
        )}
        {record?.output != null && (
          <Section title="What came back">
            <Pre text={json(record.output)} />
          </Section>
        )}
        {record?.artifact_id && <p className="mt-4 text-muted-fg">What came back is too long to stand here: it is an artifact.</p>}
        {record && <MadeArtifacts of={{ run: run.id }} only={artifact => stepThatMade([step], artifact) === step} />}
        {invocation && <Called id={invocation} receipt={record?.receipt?.id} />}
        {!record?.copied_from && <EarlierAttempts run={run} step={step} last={invocation ?? undefined} />}
      </div>
    </>
  )
}

const NOT_YET: Partial<Record<Line['state'], string>> = {
  ahead: 'The run has not come here yet.',
  running: 'It is being worked on.',
  waiting: 'It waits for the time of its next attempt.',
  not_reached: 'The run ended before it.',
}

function StepHead({ run, step }: { run: Run; step: Line }) {
  const { error, busy, run: send } = useSending()
  const mayRun = useMay().includes('invoke')
  const fired = useFired()
  const saved = useQuery({ ...automationQuery(run.automation_id), retry: false })
  const refused = noRerunFrom(run, step, saved.data?.digest)
  return (
    <header className="px-4 pt-4 md:px-6">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h2 className="text-base font-semibold">
          <Foreign text={step.id} />
        </h2>
        <StepBadge state={step.state} />
        <Foreign text={step.action} className="font-mono text-xs text-muted-fg" />
        {step.record && (
          <span className="text-xs text-muted-fg">
            ended <When at={step.record.ended_at} />
          </span>
        )}
        {mayRun && !refused && (
          <span className="ml-auto flex flex-wrap items-center gap-2">
            <Copy text={`countersign run rerun ${run.id} --from ${step.id}`} label="command" />
            <Button
              busy={!!busy}
              title="What came before is taken from this run"
              onClick={() => void send('it', async () => fired(await rerun(run.id, { from_step: step.id })))}
            >
              Run again from here
            </Button>
          </span>
        )}
        {mayRun && isFinal(run) && refused && <span className="ml-auto text-xs text-muted-fg">{refused}</span>}
      </div>
      {error && <Failed error={error} />}
    </header>
  )
}

/** The call of a step: what was asked, how it went with each attempt, and where its receipt is. */
function Called({ id, receipt }: { id: string; receipt: string | undefined }) {
  const read = useQuery({ ...oneQuery(id), retry: false })
  const entries = useQuery({ ...entriesQuery(id), retry: false })
  const nameOf = useNames()
  const item = read.data?.invocation
  const action = useQuery({ ...actionQuery(item?.action ?? ''), enabled: !!item })
  return (
    <>
      {item && (
        <Section title="What was asked">
          <Params params={item.params} schema={action.data?.params_schema} />
        </Section>
      )}
      {item && (
        <Section title="How it went">
          <Rail stages={timeline(item, entries.data?.items ?? [], nameOf)} beside={at => since(item.created_at, at)} />
        </Section>
      )}
      <Section title="Its call">
        <p className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <Link to="/invocations/$invocation" params={{ invocation: id }} className="text-primary underline">
            The call
          </Link>
          {receipt && (
            <Link to="/receipts/$receipt" params={{ receipt }} className="text-primary underline">
              Receipt {receipt}
            </Link>
          )}
          <Copy text={id} />
        </p>
      </Section>
    </>
  )
}

/** Each time that a step was tried again is a call of its own: those before its last one. */
function EarlierAttempts({ run, step, last }: { run: Run; step: Line; last: string | undefined }) {
  const isTried = !!last || run.waiting_for === 'retry'
  const read = useQuery({ ...earlierCallsQuery(run.session_id, step.action, last), enabled: isTried && !!step.action })
  const calls = callsOf(read.data ?? [], run.id, step.id)
  if (calls.length === 0) return null
  return (
    <Section title="Earlier attempts">
      <ol aria-label="Earlier attempts" className="space-y-1">
        {calls.map(call => (
          <li key={call.id} className="flex min-w-0 flex-wrap items-baseline gap-x-3 text-xs">
            <StatusBadge status={call.status} brief />
            {call.error && <Foreign text={`${call.error.message} (${call.error.code})`} className="min-w-0 text-danger" />}
            <span className="text-muted-fg">
              <When at={call.created_at} />
            </span>
            <Link to="/invocations/$invocation" params={{ invocation: call.id }} className="text-primary underline">
              the call
            </Link>
            {call.receipt && (
              <Link to="/receipts/$receipt" params={{ receipt: call.receipt.id }} className="text-primary underline">
                receipt
              </Link>
            )}
          </li>
        ))}
      </ol>
    </Section>
  )
}
