import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Status, Tier } from '@/api/types'

export type InvocationFilter = { status?: string; action?: string; session?: string; tier?: string }

/** What stands in the address may be no status and no tier: the server says so. */
export const invocationsQuery = ({ status, tier, ...filter }: InvocationFilter) =>
  infiniteQueryOptions({
    queryKey: ['invocations', { ...filter, status, tier }],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      body(
        api.GET('/api/v1/invocations', {
          params: { query: { ...filter, status: status as Status, tier: tier as Tier, count: true, limit: 50, after: pageParam } },
        }),
      ),
    getNextPageParam: page => page.next ?? undefined,
    placeholderData: keepPreviousData,
  })

/** One call, whole, with the message that goes with its status. */
export const oneQuery = (invocation: string) =>
  queryOptions({
    queryKey: ['one-invocation', invocation],
    queryFn: () => body(api.GET('/api/v1/invocations/{invocation}', { params: { path: { invocation } } })),
  })
