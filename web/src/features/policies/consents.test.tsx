// Consents as a person gives and withdraws their own.
import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'

const at = new Date().toISOString()
const consent = (id: string, purpose: string, user_id = 'usr_x') => ({ id, user_id, purpose, state: 'live', given_at: at })
const mine = consent('cns_1', 'action:files.write_text')
const theirs = consent('cns_2', 'purpose:newsletter', 'usr_y')

test('a consent is given as it was typed, with the command that does the same', async () => {
  const { server, user } = openPage('/policies/consents', {
    'GET /api/v1/consents': () => ({ items: [], next: null }),
    'POST /api/v1/consents': () => mine,
  })
  await screen.findByText('Nobody has given a consent')
  await user.click(await screen.findByRole('button', { name: 'Give my consent…' }))
  const dialog = within(await screen.findByRole('dialog', { name: 'Give your consent' }))
  await user.type(dialog.getByLabelText(/^To what/), 'files.write_text')
  await user.selectOptions(dialog.getByLabelText('Until'), '7d')
  await user.type(dialog.getByLabelText(/^What you were shown/), 'it’s fine')
  expect(dialog.getByTitle(/^Copy countersign/).textContent).toBe(
    "countersign consent give action:files.write_text --expires 7d --evidence 'it’s fine'",
  )
  await user.click(dialog.getByRole('button', { name: 'Give it' }))
  expect(await screen.findByText('You consent to action:files.write_text.')).toBeTruthy()
  expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({
    purpose: 'action:files.write_text',
    space_id: null,
    expires_in: '7d',
    evidence: 'it’s fine',
  })
})

test('only one’s own is withdrawn, and after a question', async () => {
  const { server, user } = openPage('/policies/consents', {
    'GET /api/v1/consents': () => ({ items: [mine, theirs], next: null }),
    'DELETE /api/v1/consents/cns_1': () => ({ ...mine, state: 'withdrawn', withdrawn_at: at }),
  })
  await screen.findByText('purpose:newsletter')
  await user.click(await screen.findByRole('button', { name: 'Withdraw action:files.write_text' }))
  expect(screen.queryByRole('button', { name: 'Withdraw purpose:newsletter' })).toBeNull()
  const sent = () => server.asked.filter(asked => asked.method === 'DELETE').map(asked => asked.path)
  const dialog = within(await screen.findByRole('dialog'))
  expect(sent()).toEqual([])
  await user.click(dialog.getByRole('button', { name: 'Withdraw' }))
  await waitFor(() => expect(sent()).toEqual(['/api/v1/consents/cns_1']))
  expect(await screen.findByText('Withdrawn: action:files.write_text.')).toBeTruthy()
})

test('a consent has an address, on whichever page of the list it is', async () => {
  const { user, router } = openPage('/policies/consents?consent=cns_2', {
    'GET /api/v1/consents': ({ path }) => (path.includes('after=more') ? { items: [theirs], next: null } : { items: [mine], next: 'more' }),
  })
  const rows = within(await screen.findByRole('list', { name: 'Consents' }))
  expect(await rows.findByText('purpose:newsletter')).toBeTruthy()
  expect(rows.queryByText('action:files.write_text')).toBeNull()
  await user.click(screen.getByRole('button', { name: 'Show all' }))
  await user.click(await rows.findByRole('link', { name: 'action:files.write_text' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ consent: 'cns_1' }))
})
