// The sessions of the org, the newest first.
import { infiniteQueryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'

/** Its name begins as those of the rules: what makes them old makes it old. */
export const sessionsQuery = infiniteQueryOptions({
  queryKey: ['rules', 'sessions'],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => body(api.GET('/api/v1/sessions', { params: { query: { limit: 100, after: pageParam } } })),
  getNextPageParam: page => page.next ?? undefined,
})
