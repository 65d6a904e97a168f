// One clock for every countdown of a page. It is the server's, as far as its answers tell: deadlines are.
import { useSyncExternalStore } from 'react'

/** An answer says the second in which it was made, and takes a moment to come. */
const SLACK_MS = 2_000
const listeners = new Set<() => void>()
let offset = 0
let now = Date.now()

/** The time on the server. */
export const serverNow = (): number => Date.now() + offset

/** Takes over the time of an answer, where this machine's clock is another. */
export function heard(date: string | null): void {
  const apart = Date.parse(date ?? '') - Date.now()
  if (!Number.isNaN(apart)) offset = Math.abs(apart) > SLACK_MS ? apart : 0
}
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    now = serverNow()
    for (const each of listeners) each()
  }, 1_000)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** The time, which moves once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}
