// What holds for every address.
import { cleanup, screen, waitFor } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { openPage } from '@/test/page'
import { base, Refused } from '@/test/server'

const none = () => ({ items: [], next: null })

test('the title of the window names the page, and how many calls wait', async () => {
  const { router } = openPage('/policies/grants', {
    'GET /api/v1/grants': none,
    'GET /api/v1/invocations': () => ({
      items: [{ ...base, expires_at: new Date(Date.now() + 60_000).toISOString() }],
      next: null,
    }),
  })
  await waitFor(() => expect(document.title).toBe('(1) Grants · Countersign'))
  await router.navigate({ to: '/receipts' })
  await waitFor(() => expect(document.title).toBe('(1) Receipts · Countersign'))
  expect(await screen.findByRole('heading', { name: 'Receipts' })).toBeTruthy()
})

test.each([
  ['/grants?state=requested', '/policies/grants', { state: 'requested' }],
  ['/grants/grt_1', '/policies/grants/grt_1', {}],
  ['/spaces', '/policies/spaces', {}],
  ['/sessions/ses_1', '/policies/sessions/ses_1', {}],
  ['/kill-switch', '/policies/kill-switch', {}],
  ['/observe', '/policies/observe', {}],
])('%s leads to its page', async (path, to, search) => {
  const { router } = openPage(path, {})
  await waitFor(() => expect(router.state.location.pathname).toBe(to))
  expect(router.state.location.search).toEqual(search)
})

test('an address of no page leads to the inbox', async () => {
  const { user, router } = openPage('/nowhere', {})
  await user.click(await screen.findByRole('link', { name: 'To the inbox' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/'))
})

const out = () => new Refused(401, { code: 'unauthenticated', title: '', detail: 'nobody', type: '', status: 401 })

test('whoever is not logged in is led to the login, once', async () => {
  const replace = vi.spyOn(window.location, 'replace').mockImplementation(() => {})
  openPage('/', { 'GET /api/v1/whoami': out, 'GET /api/v1/invocations': out })
  await waitFor(() => expect(replace.mock.calls).toEqual([[expect.stringMatching(/^\/login\?next=/)]]))
  cleanup()
  openPage('/', { 'GET /api/v1/whoami': out, 'GET /api/v1/invocations': out })
  expect(await screen.findByText(/You are not logged in here/)).toBeTruthy()
  expect(replace).toHaveBeenCalledTimes(1)
  replace.mockRestore()
})

test('whose login ends meanwhile stays on the page, and is asked', async () => {
  const replace = vi.spyOn(window.location, 'replace').mockImplementation(() => {})
  let isOut = false
  const { router } = openPage('/', { 'GET /api/v1/receipts': () => (isOut ? out() : none()) })
  await screen.findByText('ada')
  isOut = true
  await router.navigate({ to: '/receipts' })
  expect(await screen.findByRole('link', { name: 'Log in' })).toBeTruthy()
  expect(replace).not.toHaveBeenCalled()
  replace.mockRestore()
})
