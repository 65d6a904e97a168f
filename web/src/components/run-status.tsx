// One look for each status of a run, a step and an automation, icon and word together.
import {
  Archive,
  Ban,
  Check,
  CircleDashed,
  CirclePause,
  Clock,
  LoaderCircle,
  type LucideIcon,
  Minus,
  Play,
  ShieldAlert,
  SkipForward,
  TimerOff,
  X,
} from 'lucide-react'
import type { Schemas } from '@/api/types'
import { cx } from './ui'

export type RunStatus = Schemas['RunStatus']
/** How a step stands: what is recorded of it, or where the run is. */
export type StepState = Schemas['StepStatus'] | 'running' | 'waiting' | 'ahead' | 'not_reached'

type Look = { icon: LucideIcon; tone: string; word: string }

const RUNS: Record<RunStatus, Look> = {
  pending: { icon: Clock, tone: 'text-muted-fg', word: 'queued' },
  running: { icon: LoaderCircle, tone: 'text-primary', word: 'running' },
  waiting: { icon: Clock, tone: 'text-warn', word: 'waiting' },
  succeeded: { icon: Check, tone: 'text-ok', word: 'succeeded' },
  failed: { icon: X, tone: 'text-danger', word: 'failed' },
  timed_out: { icon: TimerOff, tone: 'text-danger', word: 'timed out' },
  cancelled: { icon: Minus, tone: 'text-muted-fg', word: 'cancelled' },
  quarantined: { icon: ShieldAlert, tone: 'text-danger', word: 'quarantined' },
}

const STEPS: Record<StepState, Look> = {
  succeeded: RUNS.succeeded,
  failed: RUNS.failed,
  timed_out: RUNS.timed_out,
  skipped: { icon: SkipForward, tone: 'text-muted-fg', word: 'skipped' },
  running: RUNS.running,
  waiting: RUNS.waiting,
  ahead: { icon: CircleDashed, tone: 'text-muted-fg', word: 'ahead' },
  not_reached: { icon: Ban, tone: 'text-muted-fg', word: 'not reached' },
}

const AUTOMATIONS: Record<Schemas['AutomationStatus'], Look> = {
  active: { icon: Play, tone: 'text-ok', word: 'active' },
  paused: { icon: CirclePause, tone: 'text-warn', word: 'paused' },
  archived: { icon: Archive, tone: 'text-muted-fg', word: 'archived' },
}

function Badge({ look: { icon: Icon, tone, word } }: { look: Look }) {
  return (
    <span className={cx('inline-flex items-baseline gap-1 text-xs font-medium whitespace-nowrap', tone)}>
      <Icon aria-hidden className="size-3.5 shrink-0 self-center" />
      {word}
    </span>
  )
}

export const RunBadge = ({ status }: { status: RunStatus }) => <Badge look={RUNS[status]} />
export const StepBadge = ({ state }: { state: StepState }) => <Badge look={STEPS[state]} />
export const AutomationBadge = ({ status }: { status: Schemas['AutomationStatus'] }) => <Badge look={AUTOMATIONS[status]} />

const FILLS: Partial<Record<RunStatus, string>> = {
  succeeded: 'fill-ok',
  failed: 'fill-danger',
  timed_out: 'fill-danger',
  quarantined: 'fill-danger',
  waiting: 'fill-warn',
}

/** The last runs, the oldest first: how high a tick stands says the same as its colour. */
export function Ticks({ statuses }: { statuses: readonly RunStatus[] }) {
  const bad = statuses.filter(status => FILLS[status] === 'fill-danger').length
  const words = `${statuses.length - bad} of the last ${statuses.length} runs did not fail`
  return (
    <svg role="img" aria-label={words} viewBox={`0 0 ${statuses.length * 5} 12`} className="h-3" style={{ width: statuses.length * 5 }}>
      <title>{words}</title>
      {statuses.map((status, at) => {
        const height = FILLS[status] === 'fill-danger' ? 12 : status === 'succeeded' ? 8 : 5
        // biome-ignore lint/suspicious/noArrayIndexKey: a tick is its place
        return <rect key={at} x={at * 5} y={12 - height} width={3.5} height={height} className={FILLS[status] ?? 'fill-muted-fg'} />
      })}
    </svg>
  )
}
