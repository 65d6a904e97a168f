// Grants that cover the action of a call and do not replace its approval, each with what it missed.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Invocation, Json, Schemas } from '@/api/types'
import { line } from '@/lib/clean'
import { explainQuery } from '@/lib/explain'

export function NearGrants({ grants }: { grants: readonly Schemas['NearGrantView'][] }) {
  if (grants.length === 0) return null
  return (
    <div className="mt-2">
      <p>Grants that nearly covered it:</p>
      <ul aria-label="Grants that nearly covered it" className="list-disc pl-5">
        {grants.map(near => (
          <li key={near.grant_id} className="foreign">
            <Link to="/policies/grants/$grant" params={{ grant: near.grant_id }} className="font-mono text-xs text-primary underline">
              {near.grant_id}
            </Link>{' '}
            for <code className="text-xs">{line(near.covers)}</code>: {line(near.because)}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Those of a call that waits, as they are now. The server explains what the agent of a session asks, and of others nothing is known. */
export function NearGrantsOf({ item, params }: { item: Invocation; params: Json | undefined }) {
  const isAsked = item.status === 'pending' && !item.dry_run && item.principal.startsWith('agent:')
  // What is not known whole is not judged.
  const known = params && !('_truncated' in params) ? params : null
  const told = useQuery(explainQuery(isAsked ? { action: item.action, session_id: item.session_id, params: known } : undefined))
  return isAsked ? <NearGrants grants={told.data?.near_grants ?? []} /> : null
}
