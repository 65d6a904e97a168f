// How many requests for a grant wait: told on every page, since they appear in no list of calls.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import { everyPage } from './pages'
import { useReadAgain } from './refresh'

/** Its name begins as those of the lists of grants: what makes them old makes it old. */
const requestedQuery = queryOptions({
  queryKey: ['rules', 'grants', 'requested'],
  queryFn: async () =>
    (await everyPage(after => body(api.GET('/api/v1/grants', { params: { query: { state: 'requested', limit: 100, after } } })))).length,
  retry: false,
  // A request ends by itself, and no event tells of it.
  refetchInterval: 60_000,
})

export const useRequestedGrants = (): number => useQuery(requestedQuery).data ?? 0

/** Once for all pages: reads the number again when the stream tells of a grant. */
export function useRequestedGrantsLive(): void {
  useReadAgain(event => event.type.startsWith('grant.'), [requestedQuery.queryKey])
}
