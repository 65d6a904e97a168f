import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'

export type Message = Schemas['NotificationView']

const list = (query: { after?: string; limit: number }) => body(api.GET('/api/v1/notifications', { params: { query } }))

/** The newest first. Who sent each is asked one by one, so a page is short. */
export const notificationsQuery = infiniteQueryOptions({
  queryKey: ['notifications'],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => list({ limit: 20, after: pageParam }),
  getNextPageParam: page => page.next ?? undefined,
})

/** One message; null if there is none. Ids sort by birth, so they are cursors: what comes after the end of its own is itself. */
export const notificationQuery = (id: string) =>
  queryOptions({
    queryKey: ['notification', id],
    queryFn: async () => (await list({ after: `${id}~`, limit: 1 })).items.find(item => item.id === id) ?? null,
  })
