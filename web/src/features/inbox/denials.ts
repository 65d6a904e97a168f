// A denial waits five seconds, so that it can be taken back; after that nothing can. Leaving or hiding the page sends it at once.
import { useCallback, useEffect, useRef, useState } from 'react'
import type { Invocation } from '@/api/types'
import { serverNow } from '@/lib/clock'
import { undoMs } from './model'
import { deny, denyOnLeaving } from './queries'

type Waiting = { item: Invocation; reason: string | undefined; timer: ReturnType<typeof setTimeout> }

export function useDenials(send: (item: Invocation, reason: string | undefined, how: typeof deny) => void) {
  const waiting = useRef(new Map<string, Waiting>())
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set())
  const changed = useCallback(() => setIds(new Set(waiting.current.keys())), [])
  const latest = useRef(send)
  latest.current = send

  const take = useCallback(
    (id: string) => {
      const found = waiting.current.get(id)
      if (!found) return undefined
      clearTimeout(found.timer)
      waiting.current.delete(id)
      changed()
      return found
    },
    [changed],
  )
  const start = useCallback(
    (item: Invocation, reason: string | undefined) => {
      take(item.id)
      const timer = setTimeout(
        () => {
          const found = take(item.id)
          if (found) latest.current(found.item, found.reason, deny)
        },
        undoMs(item, serverNow()),
      )
      waiting.current.set(item.id, { item, reason, timer })
      changed()
    },
    [take, changed],
  )
  useEffect(() => {
    const sendAll = (how: typeof deny) => {
      for (const id of [...waiting.current.keys()]) {
        const found = take(id)
        if (found) latest.current(found.item, found.reason, how)
      }
    }
    const leave = () => sendAll(denyOnLeaving)
    // A page that is hidden may end without another word: on a phone most do.
    const hide = () => document.hidden && leave()
    window.addEventListener('pagehide', leave)
    document.addEventListener('visibilitychange', hide)
    return () => {
      window.removeEventListener('pagehide', leave)
      document.removeEventListener('visibilitychange', hide)
      // Another page of ours is opened: the person has decided.
      sendAll(deny)
    }
  }, [take])
  return { denying: ids, deny: start, undo: (id: string) => take(id) !== undefined }
}

export type Denials = ReturnType<typeof useDenials>
