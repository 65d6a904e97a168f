// One stream for all tabs of a browser. Over HTTP/1.1 a browser has six connections to a host, and a stream keeps one: with a stream for each tab
// the seventh would load nothing. One tab has a lock and leads: it has the stream, and tells the others what it hears.
import { noteLogin } from '@/api/client'
import { follow, type Live, type OrgEvent, type Told } from './live'
import { isNotified } from './notice'

const NAME = 'countersign-stream'
/** A tab that leads answers within this time, unless the browser has suspended it. */
const ANSWER_MS = 2_000
/** It hears the server, or tries to reach it, every 15 seconds, and says so. */
const SILENCE_MS = 20_000

type Said =
  | { kind: 'hello' }
  | { kind: 'state'; state: Live }
  | { kind: 'event'; event: OrgEvent }
  | { kind: 'alive'; cursor?: string }
  | { kind: 'reset' }

/** Follows the stream, together with the other tabs, until the returned function is called. */
export function followTogether(told: Told): () => void {
  // Only pages of https and of localhost have locks.
  if (!navigator.locks || typeof BroadcastChannel === 'undefined') return followAlone(told)
  const ended = new AbortController()
  const { signal } = ended
  const channel = new BroadcastChannel(NAME)
  let state: Live = 'connecting'
  let cursor: string | undefined
  let isLeading = false
  let hasJoined = false
  let silent: ReturnType<typeof setTimeout> | undefined

  const hear = (said: Said) => {
    if (said.kind === 'event') told.event(said.event)
    else if (said.kind === 'reset') {
      hasJoined = true
      told.reset()
    } else if (said.kind === 'alive') {
      // From here the stream can be led on.
      if (hasJoined) cursor = said.cursor
    } else if (said.kind === 'state') {
      state = said.state
      if (state === 'live') noteLogin('in')
      if (state === 'logged out') noteLogin('out')
      told.state(state)
      // What happened before this tab heard the others is read, not told.
      if (state === 'live' && !isLeading && !hasJoined) hear({ kind: 'reset' })
    }
  }
  const say = (said: Said) => {
    channel.postMessage(said)
    hear(said)
  }

  /** Leads while it has the lock. Returns whether another tab took it away. */
  const lead = async (how: LockOptions): Promise<boolean> => {
    let end = undefined as (() => void) | undefined
    const untilEnded = () =>
      new Promise<void>(release => {
        if (signal.aborted) return release()
        isLeading = true
        end = follow(
          {
            event: event => say({ kind: 'event', event }),
            state: state => say({ kind: 'state', state }),
            reset: () => say({ kind: 'reset' }),
            alive: cursor => say({ kind: 'alive', cursor }),
          },
          cursor,
        )
        signal.addEventListener('abort', () => {
          end?.()
          release()
        })
      })
    await navigator.locks.request(NAME, how, untilEnded).catch(() => {})
    if (!end) return false
    end()
    isLeading = false
    return !signal.aborted
  }
  const inTurn = async () => {
    while (await lead({ signal }));
  }

  /** If whoever leads is not heard within this time, a tab that somebody looks at takes the lead. It stays in the queue, too. */
  const expectWithin = (ms: number) => {
    clearTimeout(silent)
    silent = setTimeout(() => {
      if (!isLeading && !document.hidden) void lead({ steal: true })
    }, ms)
  }
  const hello = () => {
    channel.postMessage({ kind: 'hello' } satisfies Said)
    expectWithin(ANSWER_MS)
  }
  channel.onmessage = ({ data }: MessageEvent<Said>) => {
    if (data.kind === 'hello') {
      if (isLeading) channel.postMessage({ kind: 'state', state } satisfies Said)
      return
    }
    expectWithin(SILENCE_MS)
    hear(data)
  }
  document.addEventListener('visibilitychange', () => document.hidden || isLeading || hello(), { signal })
  void inTurn()
  hello()
  return () => {
    ended.abort()
    clearTimeout(silent)
    channel.close()
  }
}

/** A stream for this tab. It ends while nobody looks, unless they asked to be notified: so it takes no connection from the tab in front. */
function followAlone(told: Told): () => void {
  let end: (() => void) | undefined
  const look = () => {
    if (!document.hidden || isNotified()) end ??= follow(told)
    else {
      end?.()
      end = undefined
    }
  }
  document.addEventListener('visibilitychange', look)
  look()
  return () => {
    document.removeEventListener('visibilitychange', look)
    end?.()
  }
}
