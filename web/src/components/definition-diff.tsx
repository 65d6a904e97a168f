// How a definition differs from the one that was reviewed: what it takes, what it says of itself, and its code. Side by side where there is room.
import type { Review } from '@/api/types'
import { line } from '@/lib/clean'
import { Diff } from './changes'

export function DefinitionDiff({ review }: { review: Review }) {
  return (
    <div className="@container mt-3 space-y-3 empty:hidden">
      {review.findings?.map(found => (
        <p key={`${found.rule}${found.pointer}`} className="foreign text-sm font-medium">
          ! {line(found.message)} ({found.rule})
        </p>
      ))}
      {review.changes.length > 0 && (
        <p className="hidden grid-cols-2 text-xs text-muted-fg @xl:grid">
          <span>as it was reviewed</span> <span>as it is now</span>
        </p>
      )}
      {review.changes.map(change => (
        <div key={`${change.pointer}${change.summary}`} className="overflow-hidden rounded border bg-panel font-mono text-xs">
          <p className="foreign border-b px-3 py-1.5">
            <b>{change.weight}</b> {line(change.summary)}
          </p>
          <div className="grid @xl:grid-cols-2">
            <Side sign="-" text={change.before} other={change.after} />
            <Side sign="+" text={change.after} other={change.before} />
          </div>
        </div>
      ))}
      {review.code?.map(file => (
        <div key={file.path} className="overflow-hidden rounded border bg-panel">
          <p className="foreign border-b px-3 py-1.5 font-mono text-xs">
            {file.change} {line(file.path)} +{file.added_lines} −{file.removed_lines}
          </p>
          {file.diff && <Diff text={file.diff} />}
          {file.diff_truncated && <p className="px-3 py-1 text-xs font-medium">! The diff is longer than this.</p>}
        </div>
      ))}
    </div>
  )
}

/** The sign stands in the text, so colour is not the only signal. What is there on one side only leaves the other empty. */
function Side({ sign, text, other }: { sign: '-' | '+'; text: string | null | undefined; other: string | null | undefined }) {
  if (text == null) return <p aria-hidden className="hidden bg-muted @xl:block" />
  const [start, middle, end] = differing(text, other ?? '')
  return (
    <p className={`foreign px-3 py-1 ${sign === '-' ? 'bg-removed' : 'bg-added'}`}>
      {sign} {line(start)}
      {middle && <b className="font-semibold underline decoration-1 underline-offset-2">{line(middle)}</b>}
      {line(end)}
    </p>
  )
}

/** A text in three parts: what it begins with as the other does, what is its own, what it ends with as the other does. Words stay whole,
 * and a text that has nothing in common with the other is not marked. */
export function differing(text: string, other: string): [string, string, string] {
  if (text === '' || other === '') return [text, '', '']
  const [own, its] = [text.split(/(?<=\s)/), other.split(/(?<=\s)/)]
  const most = Math.min(own.length, its.length)
  let start = 0
  while (start < most && own[start] === its[start]) start += 1
  let end = 0
  while (end < most - start && own[own.length - 1 - end] === its[its.length - 1 - end]) end += 1
  if (start + end === 0) return [text, '', '']
  return [own.slice(0, start).join(''), own.slice(start, own.length - end).join(''), own.slice(own.length - end).join('')]
}
