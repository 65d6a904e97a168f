// The newest sessions, for a choice among them and for their titles.
import { useInfiniteQuery } from '@tanstack/react-query'
import type { Session } from '@/api/types'
import { line } from '@/lib/clean'
import { sessionsQuery } from '@/lib/sessions'

export function useSessions(): { sessions: readonly Session[]; titleOf: (id: string) => string } {
  const sessions = useInfiniteQuery(sessionsQuery).data?.pages.flatMap(page => page.items) ?? []
  return { sessions, titleOf: id => line(sessions.find(each => each.id === id)?.title ?? id) }
}
