import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'

export type LetterKind = Schemas['LetterKind']
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

export const eventQuery = (event: string) =>
  queryOptions({
    queryKey: ['event', event],
    queryFn: () => body(api.GET('/api/v1/events/{event}', { params: { path: { event } } })),
    retry: false,
  })

/** What was given up, of one kind or of all. No event tells of a notice or a call, so it is read again now and then. */
export const deadQuery = (kind: LetterKind | undefined) =>
  infiniteQueryOptions({
    queryKey: ['dead', 'letters', kind],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(api.GET('/api/v1/dead-letters', { params: { query: { kind, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
    refetchInterval: 15_000,
  })

export const letterQuery = (letter: string | undefined) =>
  queryOptions({
    queryKey: ['dead', 'letter', letter],
    enabled: !!letter,
    queryFn: () => body(api.GET('/api/v1/dead-letters/{letter}', { params: { path: { letter: letter ?? '' } } })),
    retry: false,
  })

/** Who takes events together. No event tells how far they are, so it is read again now and then. */
export const groupsQuery = queryOptions({
  queryKey: ['event-groups'],
  queryFn: async () => (await body(api.GET('/api/v1/event-groups'))).items,
  refetchInterval: 15_000,
})

export const retryLetter = (letter: string, how: Schemas['RetryLetterRequest'] = {}) =>
  body(api.POST('/api/v1/dead-letters/{letter}/retry', { params: { path: { letter } }, body: how }))
export const dropLetter = (letter: string) => body(api.POST('/api/v1/dead-letters/{letter}/drop', { params: { path: { letter } } }))
