// A run as a list of steps, and what can be done with it. Pure.
import type { Invocation, Json, Run, Schemas } from '@/api/types'
import type { RunStatus, StepState } from '@/components/run-status'
import { stepOf } from '@/features/inbox/model'

export type StepRecord = Schemas['StepView']
/** One step of the run: of its definition, with what became of it. */
export type Line = {
  phase: Schemas['Phase']
  index: number
  id: string
  action: string
  state: StepState
  record: StepRecord | undefined
  /** How long it took; undefined while it has not ended, and for what was taken from another run. */
  ms: number | undefined
}

export const STATUSES: readonly RunStatus[] = [
  'pending',
  'running',
  'waiting',
  'succeeded',
  'failed',
  'timed_out',
  'cancelled',
  'quarantined',
]

const FINAL: readonly RunStatus[] = ['succeeded', 'failed', 'timed_out', 'cancelled', 'quarantined']
export const isFinal = (run: Pick<Run, 'status'>): boolean => FINAL.includes(run.status)

type Planned = { step_id: string; action: string }

function planned(definition: Json | undefined): Record<Schemas['Phase'], readonly Planned[]> {
  const execution = definition?.execution as { on_failure?: Planned[] } | undefined
  return { plan: (definition?.plan as Planned[] | undefined) ?? [], on_failure: execution?.on_failure ?? [] }
}

/** Every step of the plan, and those of `on_failure` once the run came to them. What is recorded stands even if the definition is not known. */
export function linesOf(run: Run, definition: Json | undefined): Line[] {
  const steps = run.steps ?? []
  const lists = planned(definition)
  const cameToFailure = run.phase === 'on_failure' || steps.some(step => step.phase === 'on_failure')
  const of = (phase: Schemas['Phase']): Line[] => {
    const records = steps.filter(step => step.phase === phase)
    const count = Math.max(lists[phase].length, ...records.map(record => record.index + 1), 0)
    return Array.from({ length: count }, (_, index) => {
      const record = records.find(each => each.index === index)
      const named = lists[phase][index]
      return {
        phase,
        index,
        id: record?.step_id ?? named?.step_id ?? String(index + 1),
        action: record?.action ?? named?.action ?? '',
        state: record?.status ?? ahead(run, phase, index),
        record,
        ms: record && !record.copied_from ? Date.parse(record.ended_at) - Date.parse(record.started_at) : undefined,
      }
    })
  }
  return [...of('plan'), ...(cameToFailure ? of('on_failure') : [])]
}

/** A step that has not ended. */
function ahead(run: Run, phase: Schemas['Phase'], index: number): StepState {
  if (isFinal(run)) return 'not_reached'
  if (run.phase !== phase) return phase === 'plan' ? 'not_reached' : 'ahead'
  if (run.step !== index || run.status === 'pending') return 'ahead'
  return run.status === 'waiting' ? 'waiting' : 'running'
}

/** The step that a person wants to see first: the one that waits or works, else the one that failed, else the last that ended. */
export function firstToSee(lines: readonly Line[]): Line | undefined {
  return (
    lines.find(line => line.state === 'waiting' || line.state === 'running') ??
    lines.find(line => line.state === 'failed' || line.state === 'timed_out') ??
    lines.findLast(line => line.record) ??
    lines[0]
  )
}

/** A step is named by its id, which is its own in the plan and in `on_failure`. */
export const lineOf = (lines: readonly Line[], id: string | undefined): Line | undefined => lines.find(line => line.id === id)

/** How long the bar of each step is, of 100. */
export function shares(lines: readonly Line[]): number[] {
  const most = Math.max(1, ...lines.map(line => line.ms ?? 0))
  return lines.map(line => (line.ms === undefined ? 0 : Math.max(2, Math.round((line.ms / most) * 100))))
}

const WAITING: Record<Schemas['WaitingFor'], string> = {
  approval: 'for a person to approve its step',
  retry: 'for the time of the next attempt',
  reconcile: 'to learn what became of its call',
  person: 'for a person to say what became of its call',
}

/** What it does, or what it came to, in one sentence. */
export function inWords(run: Run): string {
  switch (run.status) {
    case 'pending':
      return 'It has not begun: no worker has it yet, or another run is before it.'
    case 'running':
      return 'It is worked on.'
    case 'waiting':
      return `It waits ${run.waiting_for ? WAITING[run.waiting_for] : ''}. Nobody is held up by it.`
    case 'succeeded':
      return 'Every step of it succeeded or was skipped.'
    case 'failed':
      return run.handler_failed ? 'It failed, and so did its steps for failures.' : 'It failed.'
    case 'timed_out':
      return 'It took longer than its definition allows.'
    case 'cancelled':
      return 'It was cancelled.'
    case 'quarantined':
      return 'It took its worker down again and again: a person has to look at it.'
  }
}

/** How long a run took, or has taken so far. */
export function lasted(run: Pick<Run, 'started_at' | 'ended_at'>, now: number): number | undefined {
  if (!run.started_at) return undefined
  return Math.max(0, (run.ended_at ? Date.parse(run.ended_at) : now) - Date.parse(run.started_at))
}

const TRIGGERS: Record<Schemas['TriggerType'], string> = {
  schedule: 'a schedule',
  webhook: 'a webhook',
  event: 'an event',
  manual: 'a person or a program',
}

/** What started it. */
export const startedBy = (run: Pick<Run, 'trigger_type' | 'trigger_id'>): string =>
  run.trigger_id ? `${run.trigger_id}, ${TRIGGERS[run.trigger_type]}` : TRIGGERS[run.trigger_type]

/** Whether an event of the stream is about this run: it ended or waits, or one of its steps did something. */
export function isAbout(event: { subject: string; data?: Record<string, unknown> }, run: string): boolean {
  return event.subject === run || event.data?.trace_id === run
}

/** Why a run cannot begin anew with a step; undefined if it can. `saved` is the digest of the definition that is saved now, if it is known. */
export function noRerunFrom(run: Pick<Run, 'status' | 'digest'>, line: Line, saved?: string): string | undefined {
  if (!isFinal(run)) return 'The run has not ended.'
  if (saved !== undefined && saved !== run.digest) return 'Another definition is saved by now: only all of it can be run again.'
  if (line.phase !== 'plan') return 'A run begins with a step of its plan.'
  if (line.state === 'not_reached') return 'The run did not come so far.'
  return undefined
}

/** The step that made an artifact: by its call, or because the artifact is its output. */
export function stepThatMade(lines: readonly Line[], artifact: { id: string; invocation_id?: string | null }): Line | undefined {
  return lines.find(
    ({ record }) =>
      record && (record.artifact_id === artifact.id || (!!record.invocation_id && record.invocation_id === artifact.invocation_id)),
  )
}

/** Of these calls, those that this step of this run made. */
export function callsOf<Call extends Pick<Invocation, 'principal' | 'trace_id' | 'reason'>>(
  calls: readonly Call[],
  run: string,
  step: string,
): Call[] {
  return calls.filter(call => {
    const made = stepOf(call)
    return made?.run === run && made.step === step
  })
}

/** How far it came. What it is at counts while it works or waits; what it did, once it has ended. */
export function reached(run: Pick<Run, 'status' | 'phase' | 'step'>): string {
  if (run.phase === 'on_failure') return 'after a failure'
  if (run.status === 'succeeded') return 'every step'
  return `at step ${run.step + 1}`
}
