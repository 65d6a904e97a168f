// The stream of a tab: what its login has to do with it.
import { afterEach, expect, test, vi } from 'vitest'
import { forgetWord, isLoggedOut, noteLogin } from '@/api/client'
import { Refused, serve } from '@/test/server'
import { follow } from './live'

afterEach(() => {
  vi.restoreAllMocks()
  forgetWord()
  noteLogin('in')
})

test('a stream that ends with its login says so, goes on with the next one, and then everything is read', async () => {
  // Nobody waits for the next attempt here.
  vi.spyOn(Math, 'random').mockReturnValue(-1)
  let word: string | null = 'of ada'
  const server = serve({
    'GET /login/word': () => ({ word }),
    'GET /api/v1/stream': () => (word === null ? new Refused(401, {}) : 'events'),
  })
  const told: string[] = []
  const end = follow({ event: event => told.push(event.type), state: state => told.push(state), reset: () => told.push('reset') })
  await vi.waitFor(() => expect(told).toEqual(['live', 'reset']))
  server.event('invocation.held', 'inv_a', 5)
  word = null
  server.tell('event: problem\ndata: {}\n\n')
  await vi.waitFor(() => expect(told).toContain('logged out'))
  expect(isLoggedOut()).toBe(true)
  word = 'of bob'
  await vi.waitFor(() => expect(told.slice(-2)).toEqual(['live', 'reset']))
  expect([told.slice(0, 3), isLoggedOut()]).toEqual([['live', 'reset', 'invocation.held'], false])
  // Where Ada was in it is nothing to Bob.
  const streams = server.asked.filter(asked => asked.path === '/api/v1/stream').map(asked => asked.headers.get('last-event-id'))
  expect([streams[0], streams[1], streams.at(-1)]).toEqual([null, '5', null])
  end()
})

test('an event that is called like a message of the stream is an event', async () => {
  const server = serve({})
  const told: string[] = []
  const end = follow({ event: event => told.push(event.type), state: state => told.push(state), reset: () => told.push('reset') })
  await vi.waitFor(() => expect(told).toEqual(['live', 'reset']))
  const names = ['problem', 'stream.dropped', 'stream.opened']
  for (const [at, name] of names.entries()) server.event(name, 'a', at + 2)
  await vi.waitFor(() => expect(told).toEqual(['live', 'reset', ...names]))
  end()
})

test('a stream that was cut goes on where it was', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(-1)
  const server = serve({})
  const told: string[] = []
  const end = follow({ event: () => {}, state: state => told.push(state), reset: () => told.push('reset') })
  await vi.waitFor(() => expect(told).toEqual(['live', 'reset']))
  server.tell('id: 7\n\n')
  server.tell('event: stream.dropped\ndata: {}\nid: 8\n\n')
  await vi.waitFor(() => expect(told).toEqual(['live', 'reset', 'reconnecting', 'live']))
  expect(server.asked.at(-1)?.headers.get('last-event-id')).toBe('8')
  end()
})
