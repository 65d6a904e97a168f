// Everything the pages of runs ask the server.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Json, Schemas } from '@/api/types'

/** `only` are the ids of runs: then these alone, whatever else is said. */
export type RunFilter = { automation?: string; status?: string; only?: string }

/** So many are read one by one. */
const ONLY_MAX = 50

/** What stands in the address may be no status: the server says so. */
export const runsQuery = ({ automation, status, only }: RunFilter) =>
  infiniteQueryOptions({
    queryKey: ['runs', { automation, status, only }],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam }): Promise<Schemas['Page_RunView']> => {
      if (only) return { items: await Promise.all(only.split(',').slice(0, ONLY_MAX).map(readRun)), next: null }
      const query = { automation, status: status as Schemas['RunStatus'] | undefined, limit: 50, after: pageParam }
      return body(api.GET('/api/v1/runs', { params: { query } }))
    },
    getNextPageParam: page => page.next ?? undefined,
  })

const readRun = (run: string) => body(api.GET('/api/v1/runs/{run}', { params: { path: { run } } }))

/** The newest hundred, of one automation or of all. */
export const lastRunsQuery = (automation?: string) =>
  queryOptions({
    queryKey: ['runs', 'last', automation],
    queryFn: async () => (await body(api.GET('/api/v1/runs', { params: { query: { automation, limit: 100 } } }))).items,
  })

export const runQuery = (run: string) =>
  queryOptions({
    queryKey: ['run', run],
    queryFn: () => readRun(run),
    // Only the calls of its steps are told by events.
    refetchInterval: query => (query.state.data?.status === 'running' ? 3_000 : false),
  })

export const cancelRun = (run: string) => body(api.POST('/api/v1/runs/{run}/cancel', { params: { path: { run } } }))

export const rerun = (run: string, how: { from_step?: string; inputs?: Json; with_payload?: boolean } = {}) =>
  body(api.POST('/api/v1/runs/{run}/rerun', { params: { path: { run } }, body: how }))

/** Calls of this action in the session of a run, the newest first: those before the one that is known, else all. Ids sort by birth, so they are cursors. */
export const earlierCallsQuery = (session: string, action: string, before: string | undefined) =>
  queryOptions({
    queryKey: ['run', 'earlier', session, action, before],
    queryFn: async () =>
      (await body(api.GET('/api/v1/invocations', { params: { query: { session, action, after: before, limit: 50 } } }))).items,
    retry: false,
  })
