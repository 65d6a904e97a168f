// Messages to people: how many came since this person last looked. The API keeps no such thing, so this browser does, for each person.
import { type QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'
import type { OrgEvent } from './live'
import { meQuery } from './me'
import { useReadAgain } from './refresh'
import { inWords } from './waiting'

/** As many are counted, not more. */
const COUNTED_MAX = 50
const KEY = 'unread'

const keptAs = (principal: string) => `read ${principal}`

/** The newest message that this person has seen here. Ids sort by birth. */
export const readUpTo = (principal: string): string => localStorage.getItem(keptAs(principal)) ?? ''

export function markRead(client: QueryClient, principal: string, id: string): void {
  if (id <= readUpTo(principal)) return
  localStorage.setItem(keptAs(principal), id)
  void client.invalidateQueries({ queryKey: [KEY] })
}

type Unread = { count: string; ofServer: number; newest: string }

/** What of the newest messages came after one of them; `ofServer` are those that no call sent. */
export function unreadOf({ items, next }: Schemas['Page_NotificationView'], upTo: string): Unread {
  const unread = items.filter(item => item.id > upTo)
  return {
    count: inWords({ items: unread, next: unread.length === items.length ? next : null }),
    ofServer: unread.filter(item => item.invocation_id == null).length,
    newest: items[0]?.id ?? '',
  }
}

const unreadQuery = (principal: string) =>
  queryOptions({
    queryKey: [KEY, principal],
    queryFn: async () =>
      unreadOf(await body(api.GET('/api/v1/notifications', { params: { query: { limit: COUNTED_MAX } } })), readUpTo(principal)),
    retry: false,
    staleTime: 30_000,
  })

export function useUnread(): Unread {
  const me = useQuery(meQuery).data
  const { data } = useQuery({ ...unreadQuery(me?.principal ?? ''), enabled: !!me?.permissions.includes('read') })
  return data ?? { count: '', ofServer: 0, newest: '' }
}

/** No event is about a message itself: these come with one. */
export const leavesMessage = ({ type, data }: Pick<OrgEvent, 'type' | 'data'>): boolean =>
  (type === 'invocation.succeeded' && data.action === 'notify.send') ||
  type === 'automation.run.quarantined' ||
  type === 'automation.trigger_disabled'

/** Once for all pages: counts again when the stream tells of what leaves a message. */
export function useUnreadLive(): void {
  useReadAgain(leavesMessage, [[KEY]])
}
