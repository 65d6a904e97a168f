// Beneath the cron expression of a schedule: what it means, and when it fires next, as the server says.
import type { Schemas } from '@/api/types'
import { cx } from '@/components/ui'
import { line } from '@/lib/clean'
import { inZone } from './parts'

/** What the server planned for a schedule; late while the definition is not the one that it was asked about. */
export type Planned = { schedule: Schemas['PlannedScheduleView']; isLate: boolean }

export function NextFirings({ planned }: { planned: Planned | undefined }) {
  if (!planned) return null
  return (
    <div className={cx('mt-1 text-xs', planned.isLate && 'opacity-60')}>
      <p className="foreign font-medium">{line(planned.schedule.schedule)}</p>
      <ol aria-label="The next firings" className="text-muted-fg tabular-nums">
        {planned.schedule.next.map(at => (
          <li key={at}>
            <time dateTime={at}>{inZone(at, planned.schedule.timezone)}</time>
          </li>
        ))}
      </ol>
    </div>
  )
}
