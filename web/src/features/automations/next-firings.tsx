// Beneath the cron expression of a schedule: what it means, and when it fires next.
import type { Schemas } from '@/api/types'
import { cx } from '@/components/ui'
import { line } from '@/lib/clean'
import { cronInWords } from './cron'
import { inZone } from './parts'

/** What the server planned for a schedule; late while the definition is not the one that it was asked about. */
export type Planned = { schedule: Schemas['PlannedScheduleView']; isLate: boolean }

export function NextFirings({ cron, planned }: { cron: unknown; planned: Planned | undefined }) {
  const words = typeof cron === 'string' ? cronInWords(cron) : undefined
  if (!words) return null
  return (
    <div className="mt-1 text-xs">
      <p className="foreign font-medium">{line(words)}</p>
      {planned && (
        <ol aria-label="The next firings" className={cx('text-muted-fg tabular-nums', planned.isLate && 'opacity-60')}>
          {planned.schedule.next.map(at => (
            <li key={at}>
              <time dateTime={at}>{inZone(at, planned.schedule.timezone)}</time>
            </li>
          ))}
        </ol>
      )}
    </div>
  )
}
