// Secrets and connections as a person uses them.
import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import fixture from '@/test/fixtures/connection.json'
import { openPage } from '@/test/page'
import { me, Refused } from '@/test/server'

const secret = {
  id: 'sec_a',
  name: 'key',
  description: 'of the\u{202e} shop',
  version: 2,
  set_by: 'user:usr_x',
  set_at: '2026-11-17T22:38:52Z',
}
const list = (items: unknown[]) => () => ({ items, next: null })

test('a secret is rotated by a field that hides it, for the version that was seen', async () => {
  const { server, user } = openPage('/secrets?secret=key', {
    'GET /api/v1/secrets': list([secret]),
    'GET /api/v1/secrets/key/used-by': list([{ kind: 'connection', id: 'con_a', name: 'shop' }]),
    'PUT /api/v1/secrets/key': () => ({ ...secret, version: 3 }),
  })
  // What people wrote is text, and shows what it hides.
  expect(await screen.findByText('of the\\u{202e} shop')).toBeTruthy()
  expect(await screen.findByRole('link', { name: 'shop' })).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Delete' }).hasAttribute('disabled')).toBe(true)
  await user.click(screen.getByRole('button', { name: 'Rotate' }))
  const dialog = within(await screen.findByRole('dialog'))
  const field = dialog.getByLabelText('New value') as HTMLInputElement
  expect(field.type).toBe('password')
  await user.type(field, 's3cret{Enter}')
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
  expect(server.asked.find(asked => asked.method === 'PUT')?.body).toEqual({ value: 's3cret', description: secret.description, version: 2 })
  expect(document.body.innerHTML).not.toContain('s3cret')
})

test('somebody else rotated it first: that is told, and nothing is lost', async () => {
  const changed = {
    code: 'secret_changed',
    title: 'Changed',
    detail: 'version 3 is there',
    type: '/docs/errors/secret_changed',
    status: 409,
  }
  const { user } = openPage('/secrets?secret=key', {
    'GET /api/v1/secrets': list([secret]),
    'GET /api/v1/secrets/key/used-by': list([]),
    'PUT /api/v1/secrets/key': () => new Refused(409, changed),
  })
  await user.click(await screen.findByRole('button', { name: 'Rotate' }))
  await user.type(await screen.findByLabelText('New value'), 'x{Enter}')
  expect(await screen.findByText('version 3 is there')).toBeTruthy()
  expect(screen.getByRole('dialog')).toBeTruthy()
})

test('a person logs in for a connection in another tab, and the page notices', async () => {
  let status = 'open'
  let connection: object = fixture
  const { user } = openPage('/secrets?connection=tracker', {
    'GET /api/v1/connections': () => list([connection])(),
    'POST /api/v1/connections/tracker/login': () => ({ url: 'https://login.example.com/authorize', expires_at: '2099-01-01T00:00:00Z' }),
    'GET /api/v1/connections/tracker/login': () => ({ status, started_by: 'user:usr_x', started_at: '', expires_at: '' }),
  })
  await user.click(await screen.findByRole('button', { name: 'Log in' }))
  const link = await screen.findByRole('link', { name: /Log in at login.example.com/ })
  expect(link.getAttribute('href')).toBe('https://login.example.com/authorize')
  expect(link.getAttribute('rel')).toBe('noreferrer')
  status = 'done'
  connection = { ...fixture, state: 'ready', why: null, mended_by: null }
  expect(await screen.findByText('Logged in. The connection is ready.', {}, { timeout: 4_000 })).toBeTruthy()
})

test('whoever may only read gets no buttons', async () => {
  openPage('/secrets?connection=tracker', { 'GET /api/v1/connections': list([fixture]), 'GET /api/v1/whoami': () => me })
  expect(await screen.findByRole('heading', { name: 'tracker' })).toBeTruthy()
  for (const name of ['Log in', 'Test', 'Remove', 'New secret', 'New connection']) expect(screen.queryByRole('button', { name })).toBeNull()
})

test('an empty list has one next step', async () => {
  const { user } = openPage('/secrets', {})
  const [, primary] = await screen.findAllByRole('button', { name: 'New secret' })
  await user.click(primary as HTMLElement)
  expect(await screen.findByRole('dialog')).toBeTruthy()
})
