// What a proposal would have done to recorded calls, in one line.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ApiError } from '@/api/client'
import { Failed } from '@/components/ui'
import { counted } from '@/lib/format'
import { KINDS, kindOf, modesText } from './model'
import { type Proposal, whatIfQuery } from './queries'

export function WhatIfSummary({ proposal }: { proposal: Proposal }) {
  const tried = useQuery(whatIfQuery(proposal))
  const isLinked = !proposal.modes?.some(each => each.automation)
  if (tried.error) return <Failed error={tried.error as ApiError} />
  if (!tried.data) return <p className="mt-2 text-muted-fg">Trying it on the calls of the last {proposal.last}…</p>
  const { changes, replayed, truncated } = tried.data
  const counts = KINDS.map(({ kind, name }) => ({ name, count: changes.filter(change => kindOf(change) === kind).length }))
  return (
    <p className="mt-2">
      Of {truncated && 'the newest '}
      {counted(replayed, 'call')} in the last {proposal.last},{' '}
      {changes.length === 0
        ? 'none would have fared otherwise.'
        : `${counts
            .filter(each => each.count > 0)
            .map(each => `${each.count} ${each.name}`)
            .join(', ')}.`}{' '}
      {changes.length > 0 && isLinked && (
        <Link
          to="/policies/what-if"
          search={{ last: proposal.last ?? undefined, modes: modesText(proposal.modes ?? []) }}
          className="text-primary underline"
        >
          Which?
        </Link>
      )}
    </p>
  )
}
