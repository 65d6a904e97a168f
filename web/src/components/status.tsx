// One look for each status and each tier, icon and word together. A new status does not compile until it has one.
import {
  Ban,
  Check,
  CircleDashed,
  CircleHelp,
  CircleSlash,
  Clock,
  LoaderCircle,
  type LucideIcon,
  Minus,
  RefreshCw,
  ShieldAlert,
  Undo2,
  X,
} from 'lucide-react'
import type { ReactNode } from 'react'
import type { Mode, Status, Tier } from '@/api/types'
import { cx } from './ui'

/** What a pending call is besides, as it is shown: its approval would run nothing. */
type Shown = Status | 'void'

const look: Record<Shown, { icon: LucideIcon; tone: string; word: string }> = {
  pending: { icon: Clock, tone: 'text-warn', word: 'pending' },
  approved: { icon: Check, tone: 'text-primary', word: 'approved' },
  running: { icon: LoaderCircle, tone: 'text-primary', word: 'running' },
  succeeded: { icon: Check, tone: 'text-ok', word: 'succeeded' },
  failed: { icon: X, tone: 'text-danger', word: 'failed' },
  reverted: { icon: Undo2, tone: 'text-warn', word: 'reverted' },
  denied: { icon: Ban, tone: 'text-danger', word: 'denied' },
  quarantined: { icon: ShieldAlert, tone: 'text-warn', word: 'quarantined' },
  expired: { icon: CircleDashed, tone: 'text-muted-fg', word: 'expired' },
  cancelled: { icon: Minus, tone: 'text-muted-fg', word: 'cancelled' },
  void: { icon: CircleSlash, tone: 'text-muted-fg', word: 'void' },
  in_doubt: { icon: CircleHelp, tone: 'text-danger', word: 'in doubt: outcome unknown, will not be repeated' },
}

export function StatusBadge({ status, brief }: { status: Shown; brief?: boolean }) {
  const { icon: Icon, tone, word } = look[status]
  return (
    <span className={cx('inline-flex items-baseline gap-1 text-xs font-medium', tone)}>
      <Icon aria-hidden className="size-3.5 shrink-0 self-center" />
      {brief ? word.split(':')[0] : word}
    </span>
  )
}

const MODES: Record<Mode, { word: string; tone: string }> = {
  allow: { word: 'runs', tone: 'text-ok' },
  require_approval: { word: 'asks a person', tone: 'text-warn' },
  deny: { word: 'denied', tone: 'text-danger' },
}

/** What happens to a call. */
export function ModeWord({ mode, className }: { mode: Mode; className?: string }) {
  return <span className={cx(MODES[mode].tone, className)}>{MODES[mode].word}</span>
}

const TIERS: Tier[] = ['R0', 'R1', 'R2', 'R3', 'R4']

export function TierBadge({ tier }: { tier: Tier }) {
  const filled = TIERS.indexOf(tier) + 1
  const tone = tier === 'R4' ? 'text-danger' : tier === 'R3' ? 'text-warn' : 'text-muted-fg'
  return (
    <span className={cx('inline-flex items-center gap-1 font-mono text-xs', tone)} title={`risk tier ${tier} of R4`}>
      {tier}
      <span aria-hidden className="inline-flex gap-px">
        {TIERS.map((each, at) => (
          <span key={each} className={cx('size-1 rounded-full', at < filled ? 'bg-current' : 'bg-border')} />
        ))}
      </span>
    </span>
  )
}

/** A definition differs from the reviewed one. */
export function DriftMark({ children = 'drift' }: { children?: ReactNode }) {
  return (
    <span className="inline-flex shrink-0 items-baseline gap-1 text-xs text-danger">
      <RefreshCw aria-hidden className="size-3 shrink-0 self-center" />
      {children}
    </span>
  )
}

const MARK = 'shrink-0 rounded bg-muted px-1.5 text-xs font-normal whitespace-nowrap'

/** What a call was besides its status: without an effect, or without the person who should have been asked. */
export function Marks({ dryRun, observed }: { dryRun?: boolean; observed?: boolean }) {
  return (
    <>
      {dryRun && (
        <span className={MARK} title="It had no effect">
          dry run
        </span>
      )}
      {dryRun && observed && ' '}
      {observed && (
        <span className={cx(MARK, 'text-warn')} title="It needed approval and nobody was asked: its space only observes">
          observed
        </span>
      )}
    </>
  )
}
