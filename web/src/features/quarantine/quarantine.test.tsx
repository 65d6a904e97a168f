// Quarantine as a person uses it: nothing is released unseen.
import { screen, waitFor } from '@testing-library/react'
import { expect, test } from 'vitest'
import held from '@/test/fixtures/quarantine.json'
import { openPage } from '@/test/page'
import { me } from '@/test/server'

const id = held.invocation_id
const known = {
  'GET /api/v1/quarantines': () => ({ items: [held], next: null }),
  [`GET /api/v1/quarantines/${id}`]: () => held,
}

test('the content is shown only when it is asked for, and is released as it was seen', async () => {
  const { server, user } = openPage('/quarantine', {
    ...known,
    [`GET /api/v1/quarantines/${id}/payload`]: () => ({
      invocation_id: id,
      holds: 'params',
      digest: 'd1',
      payload: { text: 'a\u{e0061}' },
    }),
    [`POST /api/v1/quarantines/${id}/release`]: () => ({ invocation: {} }),
  })
  await user.click(await screen.findByRole('button', { name: /crm.refund/ }))
  expect(await screen.findByText(/a secret is in content that leaves/)).toBeTruthy()
  const release = screen.getByRole('button', { name: 'Release' })
  await user.type(screen.getByLabelText('Why?'), 'it is a test key')
  expect(release.hasAttribute('disabled')).toBe(true)
  expect(server.asked.some(asked => asked.path.endsWith('/payload'))).toBe(false)
  await user.click(screen.getByRole('button', { name: 'Show the content' }))
  expect(await screen.findByText(/a\\u\{e0061\}/)).toBeTruthy()
  await user.click(release)
  await waitFor(() =>
    expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({ reason: 'it is a test key', digest: 'd1' }),
  )
})

test('whoever may not settle it is told who does', async () => {
  openPage(`/quarantine?call=${id}`, { ...known, 'GET /api/v1/whoami': () => ({ ...me, permissions: ['read'] }) })
  expect(await screen.findByText(/permission approve looks at it/)).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Release' })).toBeNull()
})

test('an empty quarantine says what it is for', async () => {
  openPage('/quarantine?state=held', { 'GET /api/v1/quarantines': () => ({ items: [], next: null }) })
  expect(await screen.findByText('Nothing is held')).toBeTruthy()
})
