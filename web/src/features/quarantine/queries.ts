// Everything that is asked about what is held back.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'

export type Held = Schemas['QuarantineView']

export const quarantinesQuery = (state: Held['state'] | undefined) =>
  infiniteQueryOptions({
    queryKey: ['quarantines', state],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(api.GET('/api/v1/quarantines', { params: { query: { state, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
  })

/** What is held of a call; undefined if nothing is. */
export const quarantineQuery = (id: string) =>
  queryOptions({
    queryKey: ['quarantine', id],
    queryFn: () => body(api.GET('/api/v1/quarantines/{invocation}', { params: { path: { invocation: id } } })),
    retry: false,
  })

/** The content itself. That somebody looked is recorded. */
export const lookAt = (id: string) => body(api.GET('/api/v1/quarantines/{invocation}/payload', { params: { path: { invocation: id } } }))

/** The digest of what was looked at travels with the answer. */
export async function settleQuarantine(id: string, as: 'release' | 'discard', reason: string, digest: string | undefined): Promise<void> {
  const request = { params: { path: { invocation: id } }, body: { reason, digest } }
  if (as === 'release') await body(api.POST('/api/v1/quarantines/{invocation}/release', request))
  else await body(api.POST('/api/v1/quarantines/{invocation}/discard', request))
}
