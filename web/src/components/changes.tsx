// What a dry run says would change: each file with its warnings and its diff. A report in another form is shown as it is.
import { block, json, line } from '@/lib/clean'
import { cx } from './ui'

type Told = {
  path: string
  change: string
  diff?: string | null
  warnings?: string[]
  added_lines?: number
  removed_lines?: number
  diff_truncated?: boolean
}

const WORDS: Record<string, string> = {
  would_create: '+ would create',
  would_change: '~ would change',
  would_delete: '− would remove',
  no_change: '= would not change',
}

const isTold = (value: unknown): value is Told =>
  typeof value === 'object' &&
  value !== null &&
  'path' in value &&
  typeof value.path === 'string' &&
  'change' in value &&
  typeof value.change === 'string' &&
  value.change in WORDS

/** The files of a report; undefined if it has another form. */
export function filesOf(report: Record<string, unknown>): Told[] | undefined {
  const told = Array.isArray(report.changes) ? report.changes : typeof report.change === 'string' ? [report] : undefined
  return told?.every(isTold) ? told : undefined
}

export function Changes({ report }: { report: Record<string, unknown> }) {
  const files = filesOf(report)
  if (!files) return <Pre text={json(report)} />
  return (
    <div className="space-y-3">
      {files.length === 0 && <p>Nothing would change.</p>}
      {files.map(file => (
        <div key={file.path} className="overflow-hidden rounded-md border bg-panel">
          <p className="foreign flex flex-wrap gap-x-3 border-b px-3 py-1.5 font-mono text-xs">
            <span className="font-semibold">{WORDS[file.change]}</span>
            <span>{line(file.path)}</span>
            {file.change !== 'no_change' && !!file.added_lines && <span className="text-ok">+{file.added_lines}</span>}
            {file.change !== 'no_change' && !!file.removed_lines && <span className="text-danger">−{file.removed_lines}</span>}
          </p>
          {file.warnings?.map(warning => (
            <p key={warning} className="foreign bg-removed px-3 py-1 text-xs font-medium">
              ! {line(warning)}
            </p>
          ))}
          {file.change !== 'no_change' &&
            (file.diff ? (
              <Diff text={file.diff} />
            ) : (
              file.diff === null && <p className="px-3 py-1 text-xs text-muted-fg">Not text, or too large to be compared line by line.</p>
            ))}
          {file.diff_truncated && (
            <p className="bg-removed px-3 py-1 text-xs font-medium">! The diff is longer than this; the rest of it is not shown.</p>
          )}
        </div>
      ))}
      {typeof report.untried === 'string' && <p className="foreign font-medium">! {line(report.untried)}</p>}
      {report.output != null && (
        <>
          <p className="text-xs text-muted-fg">It would return</p>
          <Pre text={json(report.output)} />
        </>
      )}
    </div>
  )
}

/** A unified diff, line by line. The sign stands in the text, so colour is not the only signal. */
export function Diff({ text }: { text: string }) {
  const rows = text.replace(/\n$/, '').split('\n')
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a long one is scrolled with keys, too
    <pre tabIndex={0} className="max-h-96 overflow-auto py-1 font-mono text-xs leading-5">
      {rows.map((row, at) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: the rows of a diff never move
          key={at}
          className={cx(
            'foreign min-w-fit px-3 whitespace-pre-wrap',
            row.startsWith('+') && 'bg-added',
            row.startsWith('-') && 'bg-removed',
            row.startsWith('@@') && 'text-muted-fg',
          )}
        >
          {block(row) || ' '}
        </div>
      ))}
    </pre>
  )
}

export function Pre({ text }: { text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a long one is scrolled with keys, too
    <pre tabIndex={0} className="foreign max-h-96 overflow-auto rounded-md border bg-muted p-3 font-mono text-xs whitespace-pre-wrap">
      {text}
    </pre>
  )
}
