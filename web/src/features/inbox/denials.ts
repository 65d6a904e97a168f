// A denial waits five seconds, so that it can be taken back; after that nothing can. Leaving the page sends it at once.
import { useCallback, useEffect, useRef, useState } from 'react'
import type { Invocation } from '@/api/types'
import { serverNow } from '@/lib/clock'
import { undoMs } from './model'
import { denyOnLeaving } from './queries'

type Waiting = { item: Invocation; reason: string | undefined; timer: ReturnType<typeof setTimeout> }

export function useDenials(send: (item: Invocation, reason: string | undefined) => void) {
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
  const deny = useCallback(
    (item: Invocation, reason: string | undefined) => {
      take(item.id)
      const timer = setTimeout(
        () => {
          const found = take(item.id)
          if (found) latest.current(found.item, found.reason)
        },
        undoMs(item, serverNow()),
      )
      waiting.current.set(item.id, { item, reason, timer })
      changed()
    },
    [take, changed],
  )
  useEffect(() => {
    const all = waiting.current
    const leave = () => {
      for (const { item, reason, timer } of all.values()) {
        clearTimeout(timer)
        denyOnLeaving(item.id, reason)
      }
      all.clear()
    }
    window.addEventListener('pagehide', leave)
    return () => {
      window.removeEventListener('pagehide', leave)
      // Another page of ours is opened: the person has decided.
      for (const { item, reason, timer } of all.values()) {
        clearTimeout(timer)
        latest.current(item, reason)
      }
      all.clear()
    }
  }, [])
  return { denying: ids, deny, undo: (id: string) => take(id) !== undefined }
}

export type Denials = ReturnType<typeof useDenials>
