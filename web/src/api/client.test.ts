import { afterEach, expect, test, vi } from 'vitest'
import { Refused, serve } from '@/test/server'
import { ApiError, api, body, forgetWord, onLoggedOut } from './client'

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
