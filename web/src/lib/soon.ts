// What many events tell is looked at once. The first of them sets the time: those that keep coming put the look off no further.
import { useRef } from 'react'

const rest = (ms: number) => new Promise<void>(over => setTimeout(over, ms))
/** A look that takes longer is not waited for. */
const LOOK_MS_MAX = 10_000

/** Asks for a look `ms` from now. One that is asked for during a look follows it: a look that begins would stop the one before. */
export function useSoon(look: () => Promise<unknown>, ms: number): () => void {
  const latest = useRef({ look, ms })
  latest.current = { look, ms }
  const isAsked = useRef(false)
  const isBusy = useRef(false)
  return async () => {
    isAsked.current = true
    if (isBusy.current) return
    isBusy.current = true
    try {
      while (isAsked.current) {
        await rest(latest.current.ms)
        isAsked.current = false
        await Promise.race([latest.current.look(), rest(LOOK_MS_MAX)])
      }
    } finally {
      isBusy.current = false
    }
  }
}
