// Whether a source works, as an icon and a word.
import { Check, CirclePause, CircleX, LogIn, type LucideIcon, Minus } from 'lucide-react'
import { cx } from '@/components/ui'
import type { Health } from './model'

const HEALTH: Record<Health, { icon: LucideIcon; word: string; tone: string }> = {
  answers: { icon: Check, word: 'works', tone: 'text-ok' },
  paused: { icon: CirclePause, word: 'paused', tone: 'text-warn' },
  needs_login: { icon: LogIn, word: 'needs a login', tone: 'text-warn' },
  away: { icon: CircleX, word: 'does not answer', tone: 'text-danger' },
  stuck: { icon: CircleX, word: 'cannot run here', tone: 'text-danger' },
  never: { icon: CircleX, word: 'never answered', tone: 'text-danger' },
  removed: { icon: Minus, word: 'removed', tone: 'text-muted-fg' },
}

export function HealthWord({ health, className }: { health: Health; className?: string }) {
  const { icon: Icon, word, tone } = HEALTH[health]
  return (
    <span className={cx('inline-flex items-baseline gap-1', tone, className)}>
      <Icon aria-hidden className="size-3.5 shrink-0 self-center" />
      {word}
    </span>
  )
}
