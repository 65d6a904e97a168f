import { expect, test, vi } from 'vitest'
import { me, Refused, serve } from '@/test/server'
import { ApiError, api, body, isLoggedOut, onLogin } from './client'

const whoami = () => body(api.GET('/api/v1/whoami'))
const out = new Refused(401, { code: 'unauthenticated', title: '', detail: '', type: '', status: 401 })

test('where nobody is logged in, nothing is asked', async () => {
  vi.stubEnv('DEV', false)
  const server = serve({ 'GET /login/word': () => ({ word: null }) })
  await expect(whoami()).rejects.toMatchObject({ code: 'unauthenticated' })
  expect(server.asked.map(asked => asked.path)).toEqual(['/login/word'])
  expect(isLoggedOut()).toBe(true)
})

test('a server that is away logs nobody out', async () => {
  vi.stubEnv('DEV', false)
  let isAway = true
  serve({ 'GET /login/word': () => (isAway ? new Refused(503, {}) : { word: 'w0rd' }) })
  await expect(whoami()).rejects.toMatchObject({ problem: { title: 'The server cannot be reached' } })
  expect(isLoggedOut()).toBe(false)
  isAway = false
  await whoami()
})

test('while a page reads, the login is extended', async () => {
  const server = serve({ 'POST /api/v1/explain': () => ({}) })
  const words = () => server.asked.filter(asked => asked.path === '/login/word').length
  await whoami()
  const now = Date.now()
  vi.spyOn(Date, 'now').mockReturnValue(now + 5 * 60_000 + 1_000)
  // What is decided is sent with the login that it was decided with.
  await body(api.POST('/api/v1/explain', { body: { action: 'files.list' } as never }))
  expect(words()).toBe(1)
  await whoami()
  await whoami()
  expect(words()).toBe(2)
})

test('a problem of the server is kept whole, and what is none is told as such', async () => {
  const problem = { code: 'expired', title: 'Expired', detail: 'too late', type: '/docs/errors/expired', status: 410, hint: 'ask again' }
  serve({ 'GET /api/v1/status': () => new Refused(410, problem), 'GET /api/v1/keys': () => new Refused(500, { html: true }) })
  await expect(body(api.GET('/api/v1/status'))).rejects.toMatchObject({ problem })
  const other = await body(api.GET('/api/v1/keys')).catch((cause: unknown) => cause)
  expect(other).toBeInstanceOf(ApiError)
  expect((other as ApiError).problem).toMatchObject({ status: 500, title: 'The server cannot be reached' })
})

test('a login that has ended is noticed, and so is the next one', async () => {
  const answers: unknown[] = [out, out, me, me]
  serve({ 'GET /api/v1/whoami': () => answers.shift() })
  const told: boolean[] = []
  const end = onLogin(() => told.push(isLoggedOut()))
  for (const _ of [...answers]) await whoami().catch(() => {})
  end()
  expect(told).toEqual([true, false])
})

test('after a login in another tab a page reads with its word, and sends no decision again', async () => {
  let word = 'of ada'
  const checked = (asked: { headers: Headers }) =>
    asked.headers.get('x-countersign-csrf') === word
      ? {}
      : new Refused(403, { code: 'login_changed', title: '', detail: 'of another login', type: '', status: 403 })
  const server = serve({ 'GET /login/word': () => ({ word }), 'GET /api/v1/whoami': checked, 'POST /api/v1/explain': checked })
  const changed = vi.fn()
  const decide = () => body(api.POST('/api/v1/explain', { body: { action: 'files.list' } as never }))
  await whoami()
  const end = onLogin(changed)
  word = 'of bob'
  expect(await whoami()).toEqual({})
  expect(changed).toHaveBeenCalledOnce()
  word = 'of ada again'
  server.asked.length = 0
  await expect(decide()).rejects.toMatchObject({ code: 'login_changed' })
  expect(server.asked.map(asked => asked.path)).toEqual(['/api/v1/explain', '/login/word'])
  expect(changed).toHaveBeenCalledTimes(2)
  await decide()
  end()
})

test('what is refused for another reason is asked for once', async () => {
  const problem = { code: 'forbidden', title: '', detail: 'no', type: '', status: 403 }
  const server = serve({ 'GET /api/v1/whoami': () => new Refused(403, problem) })
  await expect(whoami()).rejects.toMatchObject({ problem })
  expect(server.asked.map(asked => asked.path)).toEqual(['/login/word', '/api/v1/whoami'])
})
