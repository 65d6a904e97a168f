// Small charts, drawn as SVG of our own: no library, no inline style. Each says in words what it shows.
import { type ReactNode, useId } from 'react'
import { cx } from '@/components/ui'
import type { Bucket } from './model'

export type Series = { name: string; fill: string; dot: string }

/** One chart with its title, its number, and what its colours mean. */
export function Chart({ title, number, children }: { title: string; number: ReactNode; children: ReactNode }) {
  const id = useId()
  return (
    <section aria-labelledby={id} className="flex min-w-0 flex-col rounded-lg border bg-panel p-4">
      <h2 id={id} className="text-xs font-semibold tracking-wide text-muted-fg uppercase">
        {title}
      </h2>
      <p className="mt-1 mb-3 text-2xl font-semibold tabular-nums">{number}</p>
      {children}
    </section>
  )
}

const HEIGHT = 40

/** Bars over time, of several counts each. The exact numbers are in the table that screen readers get, and in the title of each bar. */
export function TimeBars({ all, series, label }: { all: readonly Bucket[]; series: readonly Series[]; label: string }) {
  const most = Math.max(1, ...all.map(bucket => bucket.counts.reduce((sum, count) => sum + count, 0)))
  const [first, last] = [all[0], all[all.length - 1]]
  const words = (bucket: Bucket) => {
    const told = series.flatMap((each, at) => (bucket.counts[at] ? [`${bucket.counts[at]} ${each.name}`] : []))
    return `${moment(bucket.from)} – ${moment(bucket.to)}: ${told.join(', ') || 'none'}`
  }
  return (
    <figure className="relative mt-auto">
      <div className="flex gap-2">
        <svg aria-hidden viewBox={`0 0 ${all.length * 10} ${HEIGHT}`} preserveAspectRatio="none" className="h-24 min-w-0 flex-1 border-b">
          {all.map((bucket, at) => {
            let top = HEIGHT
            return (
              <g key={bucket.from}>
                <title>{words(bucket)}</title>
                <rect x={at * 10} y={0} width={10} height={HEIGHT} className="fill-transparent hover:fill-muted" />
                {series.map((each, index) => {
                  const height = ((bucket.counts[index] ?? 0) / most) * HEIGHT
                  top -= height
                  return height > 0 && <rect key={each.name} x={at * 10 + 1} y={top} width={8} height={height} className={each.fill} />
                })}
              </g>
            )
          })}
        </svg>
        <span className="text-xs text-muted-fg tabular-nums" title={`the highest bar is ${most}`}>
          {most}
        </span>
      </div>
      <div aria-hidden className="mt-1 flex justify-between pr-5 text-xs text-muted-fg">
        <span>{first && moment(first.from)}</span>
        <span>{last && moment(last.to)}</span>
      </div>
      {/* A table is as wide as its words whatever its width says: what hides it is a box around it. */}
      <div className="sr-only">
        <table>
          <caption>{label}</caption>
          <tbody>
            {all
              .filter(bucket => bucket.counts.some(Boolean))
              .map(bucket => (
                <tr key={bucket.from}>
                  <td>{words(bucket)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </figure>
  )
}

const moment = (at: number): string =>
  new Date(at).toLocaleString(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' })

/** What the colours mean, with the sums. Entries may be links. */
export function Legend({ series, counts, wrap }: { series: readonly Series[]; counts: readonly number[]; wrap?: Wrap }) {
  return (
    <ul className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-xs">
      {series.map((each, at) => {
        const words = (
          <>
            <span aria-hidden className={cx('size-2.5 rounded-sm', each.dot)} /> <b className="tabular-nums">{counts[at] ?? 0}</b>{' '}
            {each.name}
          </>
        )
        return <li key={each.name}>{wrap ? wrap(each.name, words) : <span className="inline-flex items-center gap-1.5">{words}</span>}</li>
      })}
    </ul>
  )
}
type Wrap = (name: string, words: ReactNode) => ReactNode

/** A few named counts, side by side. */
export function Columns({ bars, label }: { bars: readonly { name: string; count: number }[]; label: string }) {
  const most = Math.max(1, ...bars.map(bar => bar.count))
  return (
    <ol aria-label={label} className="mt-auto flex h-32 gap-2">
      {bars.map(bar => (
        <li key={bar.name} className="flex min-w-0 flex-1 flex-col text-center text-xs tabular-nums">
          <span>
            <span className="sr-only">{`${bar.name}: `}</span>
            {bar.count}
          </span>
          <svg aria-hidden viewBox={`0 0 10 ${HEIGHT}`} preserveAspectRatio="none" className="min-h-0 w-full flex-1 border-b">
            <rect x={1} y={HEIGHT - (bar.count / most) * HEIGHT} width={8} height={(bar.count / most) * HEIGHT} className="fill-primary" />
          </svg>
          <span aria-hidden className="mt-1 truncate text-muted-fg">
            {bar.name}
          </span>
        </li>
      ))}
    </ol>
  )
}

/** The share of one count in the largest. */
export function Share({ part, of }: { part: number; of: number }) {
  return (
    <svg aria-hidden viewBox="0 0 100 2" preserveAspectRatio="none" className="h-1.5 w-full rounded bg-muted">
      <rect width={(part / Math.max(1, of)) * 100} height={2} className="fill-primary" />
    </svg>
  )
}
