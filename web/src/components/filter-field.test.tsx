import { screen, waitFor } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'
import { base } from '@/test/server'

const none = () => ({ items: [], next: null })
const dead = { 'GET /api/v1/dead-letters': none }

test.each([
  ['receipts', 'Action', 'action', 'files.write_text'],
  ['receipts', 'Session', 'session', 'ses_1'],
  ['receipts', 'Trace id', 'trace_id', 'abc'],
  ['invocations', 'Action', 'action', 'files.write_text'],
  ['invocations', 'Session', 'session', 'ses_1'],
  ['events', 'Type', 'type', 'invocation.held'],
  ['events', 'Subject', 'subject', 'inv_1'],
])('what is typed on the page of %s as %s asks nothing before it is whole', async (page, label, name, text) => {
  const { server, user, router } = openPage(`/${page}`, { ...dead, [`GET /api/v1/${page}`]: none })
  const field = await screen.findByLabelText(label)
  const filtered = () =>
    server.asked.map(asked => new URLSearchParams(asked.path.split('?')[1]).get(name)).filter(value => value && text.startsWith(value))
  await user.type(field, text)
  expect(filtered()).toEqual([])
  await user.keyboard('{Enter}')
  await waitFor(() => expect(filtered()).toEqual([text]))
  await user.clear(field)
  expect(router.state.location.search).toEqual({ [name]: text })
  await user.tab()
  await waitFor(() => expect(router.state.location.search).toEqual({}))
})

test('actions are offered, the rows stay until the next are there, and what is shown follows the address', async () => {
  let answer: (page: object) => void = () => {}
  const { user, router } = openPage('/invocations', {
    'GET /api/v1/invocations': ({ path }) =>
      path.includes('action=')
        ? new Promise(resolve => {
            answer = resolve
          })
        : { items: [{ ...base, params: { path: 'first.txt' } }], next: null },
  })
  expect(await screen.findByText(/first\.txt/)).toBeTruthy()
  const field = screen.getByLabelText<HTMLInputElement>('Action')
  await waitFor(() => expect([...(field.list?.options ?? [])].map(option => option.value)).toEqual(['files.write_text']))
  await user.type(field, 'files.write_text{Enter}')
  await waitFor(() => expect(screen.getByRole('list', { busy: true })).toBeTruthy())
  expect(screen.getByText(/first\.txt/)).toBeTruthy()
  answer({ items: [], next: null })
  await user.click(await screen.findByRole('button', { name: 'Show all' }))
  expect(await screen.findByText(/first\.txt/)).toBeTruthy()
  expect([field.value, router.state.location.search]).toEqual(['', {}])
})
