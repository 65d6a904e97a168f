// Several tabs of one browser, each a call of `followTogether`, on the locks and the channels of a few lines.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { forgetWord, noteLogin } from '@/api/client'
import { Refused, serve } from '@/test/server'
import { followTogether } from './shared-stream'

/** The one lock that is asked for. */
class Locks {
  private lose?: (cause: unknown) => void
  private queue: (() => void)[] = []
  request(_name: string, { steal, signal }: LockOptions, held: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const grant = () => {
        this.lose = reject
        void held().then(() => {
          resolve()
          if (this.lose !== reject) return
          this.lose = undefined
          this.queue.shift()?.()
        })
      }
      if (!steal && this.lose) {
        this.queue.push(grant)
        signal?.addEventListener('abort', () => {
          this.queue = this.queue.filter(each => each !== grant)
          reject(signal.reason)
        })
        return
      }
      this.lose?.(new DOMException('it was stolen', 'AbortError'))
      grant()
    })
  }
}

class Channel {
  static all = new Set<Channel>()
  onmessage: (message: { data: unknown }) => void = () => {}
  constructor() {
    Channel.all.add(this)
  }
  postMessage(said: unknown) {
    if (!Channel.all.has(this)) throw new DOMException('it is closed', 'InvalidStateError')
    const data = structuredClone(said)
    for (const other of Channel.all) if (other !== this) queueMicrotask(() => Channel.all.has(other) && other.onmessage({ data }))
  }
  close() {
    Channel.all.delete(this)
  }
}

type Tab = { told: string[]; end: () => void }
let tabs: Tab[] = []
function openTab(): Tab {
  const told: string[] = []
  const end = followTogether({
    event: event => told.push(event.subject ?? ''),
    state: state => told.push(state),
    reset: () => told.push('reset'),
  })
  tabs.push({ told, end })
  return { told, end }
}

let locks: Locks
beforeEach(() => {
  localStorage.clear()
  locks = new Locks()
  vi.spyOn(navigator, 'locks', 'get').mockReturnValue(locks as never)
  vi.stubGlobal('BroadcastChannel', Channel)
  // Nobody waits for the next attempt here.
  vi.spyOn(Math, 'random').mockReturnValue(-1)
})
afterEach(() => {
  for (const tab of tabs) tab.end()
  tabs = []
  expect(Channel.all.size).toBe(0)
  vi.useRealTimers()
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
  forgetWord()
  noteLogin('in')
})

const streams = (server: ReturnType<typeof serve>) => server.asked.filter(asked => asked.path === '/api/v1/stream')
/** What was told, without what was told twice, and without what is known before anything was. */
const shown = ({ told }: Tab) => [...new Set(told)].filter(each => each !== 'connecting')
const show = (isHidden: boolean) => {
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(isHidden)
  document.dispatchEvent(new Event('visibilitychange'))
}

test('eight tabs have one stream, and each hears all of it', async () => {
  const server = serve({})
  const first = Array.from({ length: 7 }, openTab)
  for (const tab of first) await vi.waitFor(() => expect(shown(tab)).toEqual(['live', 'reset']))
  // It comes after the stream was opened, and is told that it is live.
  const late = openTab()
  await vi.waitFor(() => expect(late.told).toEqual(['live', 'reset']))
  server.event('invocation.held', 'inv_a', 5)
  for (const tab of [...first, late]) await vi.waitFor(() => expect(shown(tab)).toEqual(['live', 'reset', 'inv_a']))
  expect(streams(server)).toHaveLength(1)
})

test('when the tab with the stream is closed, another goes on where it was', async () => {
  const server = serve({})
  const [first, second, third] = [openTab(), openTab(), openTab()]
  for (const tab of [second, third]) await vi.waitFor(() => expect(shown(tab)).toEqual(['live', 'reset']))
  server.event('invocation.held', 'inv_a', 5)
  await vi.waitFor(() => expect(third.told).toContain('inv_a'))
  first.end()
  await vi.waitFor(() => expect(streams(server)).toHaveLength(2))
  expect(streams(server)[1]?.headers.get('last-event-id')).toBe('5')
  server.event('invocation.held', 'inv_b', 6)
  for (const tab of [second, third]) await vi.waitFor(() => expect(shown(tab)).toEqual(['live', 'reset', 'inv_a', 'inv_b']))
  expect(first.told).not.toContain('inv_b')
})

test('what becomes of the stream is told to every tab', async () => {
  let isOut = false
  const server = serve({ 'GET /api/v1/stream': () => (isOut ? new Refused(401, {}) : 'events') })
  const [first, second] = [openTab(), openTab()]
  await vi.waitFor(() => expect(second.told).toContain('live'))
  isOut = true
  server.tell('event: problem\ndata: {}\n\n')
  for (const tab of [first, second]) await vi.waitFor(() => expect(tab.told).toContain('logged out'))
  isOut = false
  for (const tab of [first, second]) await vi.waitFor(() => expect(tab.told.at(-1)).toBe('live'))
})

test('a tab that somebody looks at takes the stream from one that the browser has suspended', async () => {
  vi.useFakeTimers()
  const server = serve({})
  const suspended = openTab()
  await vi.waitFor(() => expect(suspended.told).toEqual(['live', 'reset']))
  for (const channel of Channel.all) channel.onmessage = () => {}
  show(true)
  const tab = openTab()
  await vi.advanceTimersByTimeAsync(30_000)
  expect([tab.told, streams(server).length]).toEqual([[], 1])
  show(false)
  await vi.advanceTimersByTimeAsync(2_000)
  await vi.waitFor(() => expect(tab.told).toEqual(['live', 'reset']))
  expect(streams(server)).toHaveLength(2)
  // Once that one is back, it has its turn again.
  server.event('invocation.held', 'inv_a', 5)
  await vi.waitFor(() => expect(tab.told).toContain('inv_a'))
  tab.end()
  await vi.waitFor(() => expect(streams(server)).toHaveLength(3))
})

test('where tabs cannot share, one that nobody looks at has no stream, unless it notifies', async () => {
  vi.spyOn(navigator, 'locks', 'get').mockReturnValue(null as never)
  const server = serve({})
  const tab = openTab()
  await vi.waitFor(() => expect(tab.told).toEqual(['live', 'reset']))
  show(true)
  show(false)
  await vi.waitFor(() => expect(tab.told).toEqual(['live', 'reset', 'live', 'reset']))
  expect(streams(server)).toHaveLength(2)
  vi.stubGlobal('isSecureContext', true)
  vi.stubGlobal('Notification', { permission: 'granted' })
  localStorage.setItem('notify', 'on')
  show(true)
  server.event('invocation.held', 'inv_a', 5)
  await vi.waitFor(() => expect(tab.told.at(-1)).toBe('inv_a'))
  expect(streams(server)).toHaveLength(2)
})
