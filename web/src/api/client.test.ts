import { afterEach, expect, test, vi } from 'vitest'
import { Refused, serve } from '@/test/server'
import { ApiError, api, body, forgetWord, onLoggedOut, onLoginChanged } from './client'

afterEach(() => {
  vi.unstubAllEnvs()
  forgetWord()
})

test('where nobody is logged in, nothing is asked', async () => {
  vi.stubEnv('DEV', false)
  const server = serve({ 'GET /login/word': () => ({ word: null }) })
  const out = vi.fn()
  const end = onLoggedOut(out)
  await expect(body(api.GET('/api/v1/whoami'))).rejects.toMatchObject({ code: 'unauthenticated' })
  end()
  expect(server.asked.map(asked => asked.path)).toEqual(['/login/word'])
  expect(out).toHaveBeenCalledOnce()
})

test('a problem of the server is kept whole, and what is none is told as such', async () => {
  const problem = { code: 'expired', title: 'Expired', detail: 'too late', type: '/docs/errors/expired', status: 410, hint: 'ask again' }
  serve({ 'GET /api/v1/status': () => new Refused(410, problem), 'GET /api/v1/keys': () => new Refused(500, { html: true }) })
  await expect(body(api.GET('/api/v1/status'))).rejects.toMatchObject({ problem })
  const other = await body(api.GET('/api/v1/keys')).catch((cause: unknown) => cause)
  expect(other).toBeInstanceOf(ApiError)
  expect((other as ApiError).problem).toMatchObject({ status: 500, title: 'The server cannot be reached' })
})

test('a login that has ended is noticed', async () => {
  serve({ 'GET /api/v1/whoami': () => new Refused(401, { code: 'unauthenticated', title: '', detail: '', type: '', status: 401 }) })
  const out = vi.fn()
  const end = onLoggedOut(out)
  await expect(body(api.GET('/api/v1/whoami'))).rejects.toBeInstanceOf(ApiError)
  end()
  expect(out).toHaveBeenCalledOnce()
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
  await body(api.GET('/api/v1/whoami'))
  const end = onLoginChanged(changed)
  word = 'of bob'
  expect(await body(api.GET('/api/v1/whoami'))).toEqual({})
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
  await expect(body(api.GET('/api/v1/whoami'))).rejects.toMatchObject({ problem })
  expect(server.asked.map(asked => asked.path)).toEqual(['/login/word', '/api/v1/whoami'])
})
