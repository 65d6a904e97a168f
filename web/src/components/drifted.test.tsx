import { screen, waitFor } from '@testing-library/react'
import { expect, test } from 'vitest'
import action from '@/test/fixtures/action.json'
import { openPage } from '@/test/page'
import { Refused } from '@/test/server'

/** The page of an action that drifted. `change` has it changed once more; so does the first answer, just before it arrives. */
function drifted() {
  let now = 1
  const change = () => {
    now += 1
  }
  const page = openPage(`/actions?action=${action.id}`, {
    'GET /api/v1/actions': () => ({ sources: [{ id: 'files', title: 'Files', actions: [{ ...action, drift: 'structural' }] }] }),
    [`GET /api/v1/reviews/${action.id}`]: () => ({
      action: action.id,
      drift: 'structural',
      textual: `digest ${now}`,
      ignores_wording: false,
      changes: [{ pointer: '/tier', summary: `change ${now}`, weight: 'risk', before: null, after: null }],
    }),
    [`POST /api/v1/reviews/${action.id}`]: ({ body }) => {
      if (now === 1) change()
      return (body as { textual: string }).textual === `digest ${now}`
        ? { action: action.id, drift: 'none', changes: [] }
        : new Refused(409, { code: 'definition_mismatch', title: 'Changed', detail: 'it is another one now', type: '', status: 409 })
    },
  })
  return { ...page, change }
}

test('a definition that changed after it was shown is refused, shown as it is now, and then accepted', async () => {
  const { server, user } = drifted()
  expect(await screen.findByText('change 1')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Accept this definition' }))
  expect(await screen.findByText('it is another one now')).toBeTruthy()
  expect(await screen.findByText('change 2')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Accept this definition' }))
  const accepted = () => server.asked.filter(asked => asked.method === 'POST').map(asked => (asked.body as { textual: string }).textual)
  await waitFor(() => expect(accepted()).toEqual(['digest 1', 'digest 2']))
  await waitFor(() => expect(screen.queryByText('it is another one now')).toBeNull())
})

test('a definition that changes while it is read is read again', async () => {
  const { server, change } = drifted()
  expect(await screen.findByText('change 1')).toBeTruthy()
  change()
  server.event('action.drifted', action.id, 5)
  expect(await screen.findByText('change 2')).toBeTruthy()
})
