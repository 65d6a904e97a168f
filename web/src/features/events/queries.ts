import { infiniteQueryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'

export type EventFilter = { type?: string; subject?: string }

/** What happened, the newest first. */
export const eventsQuery = (filter: EventFilter) =>
  infiniteQueryOptions({
    queryKey: ['events', filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(api.GET('/api/v1/events', { params: { query: { ...filter, limit: 100, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
    // What came after it was read is told by the stream.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })

/** What was given up, of one channel or of all. No event tells of it, so it is read again now and then. */
export const deadQuery = (channel: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ['dead', channel],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      body(api.GET('/api/v1/deliveries', { params: { query: { state: 'dead', channel, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
    refetchInterval: 15_000,
  })

/** Without a delivery: all dead letters of the channel. */
export const retryDead = (channel: string, delivery?: string) =>
  body(api.POST('/api/v1/channels/{channel}/retry', { params: { path: { channel } }, body: { delivery } }))
export const dropDead = (channel: string, delivery?: string) =>
  body(api.POST('/api/v1/channels/{channel}/drop', { params: { path: { channel } }, body: { delivery } }))
