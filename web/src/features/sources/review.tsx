// What changed or appeared in a source since its review: what it was, what it is, and an answer for each action.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import type { Action, Review as ReviewView } from '@/api/types'
import { Pre } from '@/components/changes'
import { DefinitionDiff } from '@/components/definition-diff'
import { useToasts } from '@/components/toasts'
import { Button, Failed, Foreign, When } from '@/components/ui'
import { acceptDefinition, actionsQuery } from '@/lib/actions'
import { block, json, line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { denyAction } from './queries'

/** Drift of an action; an action that is gone has none. */
const WHAT: Record<NonNullable<ReviewView['drift']>, string> = {
  none: 'As it was reviewed.',
  textual: 'Its wording changed.',
  structural: 'What it does or takes changed.',
  appeared: 'It appeared since the source was reviewed.',
}

export function Reviews({ reviews }: { reviews: readonly ReviewView[] }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const catalogue = useQuery(actionsQuery)
  const actions = new Map(catalogue.data?.sources.flatMap(each => each.actions).map(action => [action.id, action]))
  const mayReview = useMay().includes('manage_policy')
  const [ignoresWording, setIgnoresWording] = useState(false)
  const { error, busy, run } = useSending<string>()
  const open = reviews.filter(review => review.textual)
  const refresh = () => client.invalidateQueries()

  /** The digest of what was shown travels with the answer: if it changed once more meanwhile, nothing is reviewed. */
  const accept = (word: string, chosen: readonly ReviewView[]) =>
    run(word, async () => {
      let accepted = 0
      try {
        for (const review of chosen) {
          await acceptDefinition(review.action, review.textual, ignoresWording)
          accepted += 1
        }
      } finally {
        if (accepted > 0) say(`${counted(accepted, 'definition')} accepted.`)
        await refresh()
      }
    })
  const deny = (action: string) =>
    run(`deny ${action}`, async () => {
      await denyAction(action)
      say(`Calls of ${action} are denied from now on.`)
      await refresh()
    })
  const wording = (
    <label className="inline-flex min-h-9 items-center gap-2">
      <input type="checkbox" checked={ignoresWording} onChange={event => setIgnoresWording(event.target.checked)} />
      and ignore later changes that are wording only
    </label>
  )
  return (
    <div className="space-y-4">
      {error && <Failed error={error} retry={() => void refresh()} />}
      {mayReview && open.length > 1 && (
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <Button busy={busy === 'all'} disabled={!!busy} onClick={() => void accept('all', open)}>
            Accept all {open.length}, as shown
          </Button>
          {wording}
        </div>
      )}
      {reviews.map(review => (
        <One key={review.action} review={review} action={actions.get(review.action)}>
          {mayReview && review.textual && (
            <>
              <Button
                look="primary"
                busy={busy === review.action}
                disabled={!!busy}
                onClick={() => void accept(review.action, [review])}
                aria-label={`Accept ${review.action}`}
              >
                Accept
              </Button>
              <Button
                look="danger"
                busy={busy === `deny ${review.action}`}
                disabled={!!busy || actions.get(review.action)?.mode === 'deny'}
                onClick={() => void deny(review.action)}
                aria-label={`Deny its calls: ${review.action}`}
              >
                Deny its calls
              </Button>
              {open.length === 1 && wording}
            </>
          )}
        </One>
      ))}
      {!mayReview && open.length > 0 && <p className="text-muted-fg">Somebody with the permission manage_policy reviews it.</p>}
    </div>
  )
}

function One({ review, action, children }: { review: ReviewView; action: Action | undefined; children: ReactNode }) {
  const isGone = !review.textual
  const nameOf = useNames()
  return (
    <article aria-label={review.action} className="rounded-md border bg-panel p-4">
      <div className="flex flex-wrap items-baseline justify-between gap-x-4">
        <h3 className="font-mono text-[13px] font-medium">
          <Link to="/actions" search={{ action: review.action }} className="hover:underline">
            {review.action}
          </Link>
        </h3>
        <p className="text-xs text-muted-fg">
          {review.reviewed_at ? (
            <>
              reviewed <When at={review.reviewed_at} /> {review.reviewed_by && `by ${line(nameOf(review.reviewed_by))}`}
            </>
          ) : (
            'never reviewed'
          )}
        </p>
      </div>
      <p className={isGone ? 'text-muted-fg' : 'text-danger'}>
        {isGone ? 'It is gone: the source no longer lists it.' : WHAT[review.drift ?? 'none']}
        {action && !isGone && <span className="text-fg"> {outcome(action)}</span>}
      </p>
      <DefinitionDiff review={review} />
      {review.drift === 'appeared' && action && <Whole action={action} />}
      <div className="mt-3 flex flex-wrap items-center gap-x-2 gap-y-1 empty:hidden">{children}</div>
    </article>
  )
}

function outcome(action: Action): string {
  if (action.mode === 'deny') return 'Its calls are denied.'
  return action.mode === 'require_approval' ? 'Until somebody accepts it, its calls ask a person.' : ''
}

/** What was never reviewed has nothing to be compared with: it is shown whole. */
function Whole({ action }: { action: Action }) {
  return (
    <div className="mt-3 space-y-2">
      <p className="text-xs text-muted-fg">In the words of its source:</p>
      <p>
        <Foreign text={action.title} className="font-medium" />
      </p>
      <p className="foreign whitespace-pre-wrap">{block(action.description)}</p>
      <Pre text={json(action.params_schema)} />
    </div>
  )
}
