// What waits for a person besides pending calls, counted on every page: definitions to review, calls in doubt, what is in quarantine, and
// what was given up.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Action } from '@/api/types'
import { actionsQuery } from './actions'
import { useMay } from './me'
import { everyPage } from './pages'
import { useRefresh } from './refresh'

/** Actions whose definition is another than the reviewed one, or that nobody has reviewed. */
export const driftedIn = (catalogue: { sources: readonly { actions: readonly Action[] }[] }): Action[] =>
  catalogue.sources.flatMap(source => source.actions).filter(action => action.drift !== 'none')

export const driftedQuery = { ...actionsQuery, select: driftedIn, retry: false }

export const channelsQuery = queryOptions({
  queryKey: ['channels'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/channels', { params: { query: { limit: 100, after } } }))),
})

const heldQuery = queryOptions({
  queryKey: ['quarantines', 'count'],
  queryFn: async () =>
    (await everyPage(after => body(api.GET('/api/v1/quarantines', { params: { query: { state: 'held', limit: 100, after } } })))).length,
  retry: false,
  staleTime: 30_000,
})

/** Its name begins as those of the lists of the inbox: what makes them old makes it old. */
const doubtedQuery = queryOptions({
  queryKey: ['listed', 'doubted'],
  queryFn: async () =>
    (await body(api.GET('/api/v1/invocations', { params: { query: { status: 'in_doubt', count: true, limit: 1 } } }))).total ?? 0,
  retry: false,
})

/** As many are counted, not more: a letter comes with its event. */
const DEAD_MAX = 50
/** No event tells of a notice or a call that was given up. */
const DEAD_MS = 60_000

/** How many there are, in words: `50+` where there are more than are counted, and nothing where there is none. */
export const inWords = ({ items, next }: { items: readonly unknown[]; next?: string | null }): string =>
  next ? `${items.length}+` : items.length > 0 ? String(items.length) : ''

export const deadCountQuery = queryOptions({
  queryKey: ['dead', 'count'],
  queryFn: async () => inWords(await body(api.GET('/api/v1/dead-letters', { params: { query: { limit: DEAD_MAX } } }))),
  retry: false,
  staleTime: 30_000,
  refetchInterval: DEAD_MS,
})

export function useWaiting(): { drifted: number; doubted: number; held: number; dead: string } {
  const permissions = useMay()
  const drifted = useQuery(driftedQuery)
  const doubted = useQuery(doubtedQuery)
  const held = useQuery({ ...heldQuery, enabled: permissions.includes('read') })
  const dead = useQuery({ ...deadCountQuery, enabled: permissions.includes('read') })
  return { drifted: drifted.data?.length ?? 0, doubted: doubted.data ?? 0, held: held.data ?? 0, dead: dead.data ?? '' }
}

/** Once for all pages: reads the numbers again when the stream tells of a change. */
export function useWaitingLive(): void {
  useRefresh(['quarantine.', 'invocation.quarantined'], ['quarantines'])
  useRefresh(['channel.'], ['channels'])
  useRefresh(['event.dead_lettered'], ['dead'])
}
