// Small parts that the pages of automations share.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Json, Mistake, Schemas } from '@/api/types'
import { Diff } from '@/components/changes'
import { Params } from '@/components/params'
import { ModeWord, TierBadge } from '@/components/status'
import { cx, Foreign, fieldClass } from '@/components/ui'
import { line } from '@/lib/clean'
import { MODE_SOURCES } from '@/lib/decision'
import { lineDiff } from '@/lib/diff'
import { spacesQuery } from '@/lib/spaces'
import { planInWords, sourcesOf } from './model'

/** What is wrong, or worth a look, each with its place and what to try. */
export function Mistakes({
  title,
  mistakes,
  tone = 'danger',
  onGo,
}: {
  title: string
  mistakes: readonly Mistake[]
  tone?: 'danger' | 'warn'
  onGo?: (pointer: string) => void
}) {
  if (mistakes.length === 0) return null
  return (
    <section aria-label={title} className={cx('rounded-md border p-3', tone === 'danger' && 'border-danger')}>
      <h3 className={cx('mb-1 text-sm font-medium', tone === 'danger' ? 'text-danger' : 'text-warn')}>{title}</h3>
      <ul className="space-y-1.5">
        {mistakes.map(mistake => (
          <li key={`${mistake.pointer} ${mistake.code}`} className="foreign text-sm">
            {line(mistake.message)}
            {mistake.hint && <span className="text-muted-fg"> · {line(mistake.hint)}</span>}
            <span className="block font-mono text-xs text-muted-fg">
              {onGo ? (
                <button type="button" className="underline hover:text-fg" onClick={() => onGo(mistake.pointer)}>
                  {line(mistake.pointer) || 'the whole'}
                </button>
              ) : (
                line(mistake.pointer) || 'the whole'
              )}{' '}
              {mistake.code}
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** The steps as they would be called now, as far as that is known. */
export function PlannedSteps({ plan }: { plan: Pick<Schemas['PlanView'], 'steps' | 'run_id'> }) {
  return (
    <>
      <p className="font-medium">{planInWords(plan.steps)}</p>
      <ol className="mt-2 space-y-1.5">
        {plan.steps.map(step => (
          <li key={`${step.phase} ${step.step_id}`} className="border-l-2 pl-3">
            <p className="flex flex-wrap items-baseline gap-x-2">
              <Foreign text={step.step_id} className="font-medium" />
              <Foreign text={step.action} className="font-mono text-xs text-muted-fg" />
              <TierBadge tier={step.tier} />
              <ModeWord mode={step.mode} className="text-xs font-medium" />
              <span className="text-xs text-muted-fg">
                {MODE_SOURCES[step.mode_source]}
                {step.tightened.map(why => ` → ${line(why)}`)}
                {step.phase === 'on_failure' && ' · after a failure'}
              </span>
            </p>
            <Foreseen step={step} />
          </li>
        ))}
      </ol>
      {plan.run_id && (
        <p className="mt-2 text-xs text-muted-fg">
          What is not known yet is taken from{' '}
          <Link to="/runs/$run" params={{ run: plan.run_id }} className="text-primary underline">
            an earlier run
          </Link>
          .
        </p>
      )}
    </>
  )
}

/** Whether a step would run, and with which params. */
function Foreseen({ step }: { step: Schemas['PlannedStepView'] }) {
  return (
    <div className="text-xs text-muted-fg">
      {step.when === false && <p>It is skipped: its condition does not hold.</p>}
      {step.when == null && !step.error && <p>It runs if its condition holds.</p>}
      {step.needs.length > 0 && <p className="foreign">Not known yet: {step.needs.map(line).join(', ')}</p>}
      {step.error && (
        <p className="foreign text-danger">
          {line(step.error.message)} ({step.error.code})
        </p>
      )}
      {step.params != null && (
        <details>
          <summary className="cursor-pointer select-none max-md:min-h-11">With these params</summary>
          <div className="mt-1 text-fg">
            <Params params={step.params as Json} />
          </div>
        </details>
      )}
    </div>
  )
}

/** Which sources it calls. */
export function SourcesTouched({ steps }: { steps: readonly Schemas['PlannedStepView'][] }) {
  const sources = sourcesOf(steps)
  return (
    <p className="mt-3 text-xs text-muted-fg">
      {sources.length === 1 ? 'It touches the source ' : 'It touches the sources '}
      {sources.map((source, at) => (
        <span key={source}>
          {at > 0 && ', '}
          <Link to="/sources/$source" params={{ source }} className="text-primary underline">
            {line(source)}
          </Link>
        </span>
      ))}
      .
    </p>
  )
}

/** When the schedules fire: in words, and the next three times in their zone. */
export function Schedules({ schedules }: { schedules: readonly Schemas['PlannedScheduleView'][] }) {
  return (
    <ul className="space-y-2">
      {schedules.map(schedule => (
        <li key={schedule.trigger_id}>
          <span className="font-medium">{line(schedule.schedule)}</span> <span className="text-muted-fg">{line(schedule.timezone)}</span>
          <ol className="text-xs text-muted-fg tabular-nums">
            {schedule.next.map(at => (
              <li key={at}>
                <time dateTime={at}>{inZone(at, schedule.timezone)}</time>
              </li>
            ))}
          </ol>
        </li>
      ))}
    </ul>
  )
}

/** A time on the wall of a zone. A zone that this browser does not know is shown as UTC. */
export function inZone(at: string, zone: string): string {
  const form = {
    weekday: 'short',
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZoneName: 'short',
  } as const
  try {
    return new Date(at).toLocaleString(undefined, { ...form, timeZone: zone })
  } catch {
    return new Date(at).toLocaleString(undefined, { ...form, timeZone: 'UTC' })
  }
}

/** Place by place, how a definition differs from the saved one. */
export function Differences({ changes }: { changes: readonly Schemas['DefinitionChangeView'][] }) {
  if (changes.length === 0) return <p className="text-muted-fg">It is the same as the saved one.</p>
  return (
    <ul className="space-y-2">
      {changes.map(change => (
        <li key={change.pointer} className="overflow-hidden rounded border bg-panel">
          <p className="foreign border-b px-3 py-1 font-mono text-xs">{line(change.pointer) || 'the whole'}</p>
          <Diff text={lineDiff(textOf(change.before), textOf(change.after))} />
        </li>
      ))}
    </ul>
  )
}

const textOf = (value: unknown): string =>
  value === undefined ? '' : typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')

/** In which space it acts; the first one is what the server takes if none is named. */
export function SpaceField({ value, onChange }: { value: string; onChange: (space: string) => void }) {
  const spaces = useQuery(spacesQuery)
  return (
    <label className="block">
      <span className="mb-1 block font-medium">Space</span>
      <select value={value} onChange={event => onChange(event.target.value)} className={fieldClass}>
        <option value="">main</option>
        {spaces.data
          ?.filter(space => space.name !== 'main')
          .map(space => (
            <option key={space.id} value={space.id}>
              {line(space.name)}
            </option>
          ))}
      </select>
    </label>
  )
}

/** A part of a page that has a head and can be folded. */
export function Fold({ title, open, children }: { title: string; open?: boolean; children: ReactNode }) {
  return (
    <details open={open} className="rounded-md border bg-panel">
      <summary className="cursor-pointer px-3 py-2 text-sm font-medium select-none max-md:min-h-11">{title}</summary>
      <div className="space-y-4 border-t p-3">{children}</div>
    </details>
  )
}
