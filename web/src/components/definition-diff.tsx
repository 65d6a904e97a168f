// How a definition differs from the one that was reviewed: what it takes, what it says of itself, and its code.
import type { Review } from '@/api/types'
import { line } from '@/lib/clean'
import { Diff } from './changes'

export function DefinitionDiff({ review }: { review: Review }) {
  return (
    <div className="mt-3 space-y-3">
      {review.findings?.map(found => (
        <p key={`${found.rule}${found.pointer}`} className="foreign text-sm font-medium">
          ! {line(found.message)} ({found.rule})
        </p>
      ))}
      {review.changes.map(change => (
        <div key={`${change.pointer}${change.summary}`} className="overflow-hidden rounded border bg-panel font-mono text-xs">
          <p className="foreign border-b px-3 py-1.5">
            <b>{change.weight}</b> {line(change.summary)}
          </p>
          {change.before != null && <p className="foreign bg-removed px-3 py-1">- {line(change.before)}</p>}
          {change.after != null && <p className="foreign bg-added px-3 py-1">+ {line(change.after)}</p>}
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
