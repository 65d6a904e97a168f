// What happened, one stage below the other.
import { clockTime } from '@/lib/format'
import { cx, Foreign, Time } from './ui'

export type Stage = { at?: string; name: string; text: string; tone: 'ok' | 'bad' | 'plain' }

/** `beside` is what stands at the end of a stage that has a time; the time itself where it is absent. */
export function Rail({ stages, beside }: { stages: readonly Stage[]; beside?: (at: string) => string }) {
  return (
    <ol className="ml-1 border-l pl-4">
      {stages.map((stage, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a stage stays where it is, and new ones come after it
        <li key={at} className="relative pb-3">
          <span
            aria-hidden
            className={cx(
              'absolute top-1.5 -left-[1.28rem] size-2 rounded-full',
              stage.tone === 'ok' ? 'bg-ok' : stage.tone === 'bad' ? 'bg-danger' : 'bg-muted-fg',
            )}
          />
          <p className="flex flex-wrap items-baseline gap-x-3">
            <span className="font-medium">{stage.name.replace('_', ' ')}</span>
            <Foreign text={stage.text} className="text-muted-fg" />
            {stage.at && (
              <Time at={stage.at} className="ml-auto font-mono text-xs text-muted-fg">
                {beside ? beside(stage.at) : clockTime(stage.at)}
              </Time>
            )}
          </p>
        </li>
      ))}
    </ol>
  )
}
