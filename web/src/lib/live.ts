// The live stream of the org: one connection, which goes on where it was cut.
import { CSRF_HEADER, forgetWord, headers, isLoggedOut, noteLogin } from '@/api/client'
import type { Schemas } from '@/api/types'
import { parser } from './sse'

export type Live = 'connecting' | 'live' | 'reconnecting' | 'logged out' | 'paused'
export type OrgEvent = Schemas['StreamEvent']

export type Told = {
  event: (event: OrgEvent) => void
  state: (state: Live) => void
  /** Something may have been missed: read anew. */
  reset: () => void
  /** The server was heard; with how far the stream is. */
  alive?: (cursor: string | undefined) => void
}

const WAIT_MS_MAX = 15_000
/** The server gives a sign of life every 15 seconds. */
const SILENCE_MS = 45_000

/** Follows the stream, from now or from `after`, until the returned function is called. */
export function follow(told: Told, after?: string): () => void {
  const stop = new AbortController()
  let cursor = after
  let word: string | undefined
  let fails = 0
  const run = async () => {
    while (!stop.signal.aborted) {
      const once = new AbortController()
      const both = AbortSignal.any([stop.signal, once.signal])
      let silent = setTimeout(() => once.abort(), SILENCE_MS)
      try {
        const own = await headers()
        // Another login may be another person's, who was told something else.
        if (word !== undefined && word !== own[CSRF_HEADER]) cursor = undefined
        word = own[CSRF_HEADER]
        const response = await fetch('/api/v1/stream', {
          headers: { ...own, accept: 'text/event-stream', ...(cursor ? { 'last-event-id': cursor } : {}) },
          signal: both,
          cache: 'no-store',
        })
        if (response.status === 401) noteLogin('out')
        if (response.status === 403) forgetWord()
        if (response.status === 400 || response.status === 422) {
          // The cursor is of another database, or what came after it is kept no longer.
          cursor = undefined
          told.reset()
        }
        if (!response.ok || !response.body) throw new Error(String(response.status))
        fails = 0
        const isFirst = cursor === undefined
        noteLogin('in')
        told.state('live')
        const feed = parser(
          message => {
            const said = JSON.parse(message.data) as Partial<OrgEvent>
            // An event has a `specversion`; what the stream says of itself has none, whatever either is called.
            if (said.specversion !== undefined) told.event(said as OrgEvent)
            // What happened before the stream began is read, not told.
            else if (message.event === 'stream.opened') isFirst && told.reset()
            else if (message.event === 'problem' || message.event === 'stream.dropped') once.abort()
          },
          id => {
            cursor = id
          },
        )
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
        for (;;) {
          const { done, value } = await reader.read()
          if (done) break
          clearTimeout(silent)
          silent = setTimeout(() => once.abort(), SILENCE_MS)
          feed(value)
          told.alive?.(cursor)
        }
      } catch {
        // Told by the state below.
      } finally {
        clearTimeout(silent)
      }
      if (stop.signal.aborted) return
      // After a login in another tab it goes on by itself.
      told.state(isLoggedOut() ? 'logged out' : 'reconnecting')
      fails += 1
      const wait = Math.min(WAIT_MS_MAX, 250 * 2 ** Math.min(fails, 6)) * (0.5 + Math.random() / 2)
      await new Promise(resolve => setTimeout(resolve, wait))
    }
  }
  void run()
  return () => stop.abort()
}
