// What changed in an action since somebody reviewed it, and the button that accepts it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiError } from '@/api/client'
import type { Action } from '@/api/types'
import { acceptDefinition, reviewQuery } from '@/lib/actions'
import { useMay } from '@/lib/me'
import { useRefresh } from '@/lib/refresh'
import { DefinitionDiff } from './definition-diff'
import { Button, Failed } from './ui'

export function Drifted({ action }: { action: Pick<Action, 'id' | 'drift'> }) {
  const client = useQueryClient()
  const review = useQuery(reviewQuery(action.id))
  const mayReview = useMay().includes('manage_policy')
  const accept = useMutation({
    mutationFn: () => acceptDefinition(action.id, review.data?.textual),
    onSuccess: () => client.invalidateQueries(),
    // It may have changed again since it was shown.
    onError: () => client.invalidateQueries({ queryKey: reviewQuery(action.id).queryKey }),
  })
  useRefresh(['action.'], ['review'])
  return (
    <div className="my-3 rounded-md border border-danger bg-removed p-4">
      <p className="font-medium">
        {action.drift === 'appeared' ? 'Nobody has reviewed it since it appeared.' : 'Its definition differs from what was reviewed.'}
      </p>
      {review.data && <DefinitionDiff review={review.data} />}
      {accept.error && <Failed error={accept.error as ApiError} />}
      {mayReview ? (
        <Button className="mt-3" busy={accept.isPending} disabled={!review.data} onClick={() => accept.mutate()}>
          Accept this definition
        </Button>
      ) : (
        <p className="mt-2 text-xs">Somebody with the permission manage_policy reviews it.</p>
      )}
    </div>
  )
}
