import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { admin, openPage } from '@/test/page'
import { base, Refused } from '@/test/server'

const event = (id: string, type: string, subject: string, data: object = {}) => ({
  specversion: '1.0',
  id,
  source: '/orgs/org_x',
  type,
  subject,
  time: new Date().toISOString(),
  cursor: id.slice('evt_'.length),
  data,
})
const at = new Date().toISOString()
const letters = [
  {
    id: 'dlt_1',
    kind: 'event',
    place: 'billing',
    what: 'drive.file_added',
    problem: 'it answered\u{202e} 410',
    attempts: 5,
    died_at: at,
    event: event('evt_9', 'drive.file_added', 'file-1', { size: 7 }),
  },
  {
    id: 'dlv_1',
    kind: 'delivery',
    place: 'pager',
    what: 'pending',
    problem: 'it answered\u{202e} 410',
    attempts: 3,
    died_at: at,
    invocation_id: 'inv_1',
  },
  {
    id: 'inv_held',
    kind: 'invocation',
    place: 'files.write_text',
    what: 'failed',
    problem: 'source_error: gone',
    attempts: 2,
    died_at: at,
    invocation_id: 'inv_held',
  },
]
const failed = { ...base, id: 'inv_held', status: 'failed' }
const answers: Parameters<typeof openPage>[1] = {
  'GET /api/v1/whoami': () => ({ ...admin, permissions: [...admin.permissions, 'invoke'] }),
  'GET /api/v1/dead-letters': () => ({ items: letters, next: null }),
  'GET /api/v1/invocations/inv_held': () => ({ invocation: failed }),
}

test('what comes waits behind a button, once, and only if it fits the filter', async () => {
  const { server, user } = openPage('/events?type=invocation', {
    ...answers,
    'GET /api/v1/events': () => ({
      items: [event('evt_1', 'invocation.held', 'inv_1', { summary: 'files.write_text \u{202e}pending' })],
      next: null,
    }),
  })
  expect(await screen.findByText('files.write_text \\u{202e}pending')).toBeTruthy()
  expect(server.asked.some(asked => asked.path.startsWith('/api/v1/events?type=invocation'))).toBe(true)
  const tell = (told: object & { type: string }, cursor: number) =>
    server.tell(`event: ${told.type}\ndata: ${JSON.stringify(told)}\nid: ${cursor}\n\n`)
  tell(event('evt_2', 'mode.changed', 'modes'), 2)
  tell(event('evt_3', 'invocation.succeeded', 'inv_1', { summary: 'files.write_text succeeded' }), 3)
  tell(event('evt_3.1', 'action_completed', 'inv_1', { summary: 'files.write_text succeeded' }), 4)
  const fresh = await screen.findByRole('button', { name: '1 new' })
  expect(screen.queryByText('files.write_text succeeded')).toBeNull()
  await user.click(fresh)
  expect(screen.getAllByText('files.write_text succeeded')).toHaveLength(1)
  await user.click(screen.getByRole('button', { name: /invocation\.succeeded/ }))
  expect(screen.getByRole('link', { name: 'The call' }).getAttribute('href')).toBe('/invocations/inv_1')
})

test('an event has an address and a command, and what is filtered is in the command of the page', async () => {
  const { user, router } = openPage('/events?type=drive&subject=file%201', {
    ...answers,
    'GET /api/v1/events': () => ({ items: [{ ...event('evt_1', 'drive.file_added', 'file 1', { size: 7 }), cursor: '42' }], next: null }),
    'GET /api/v1/events/42': () => ({ ...event('evt_1', 'drive.file_added', 'file 1', { size: 7 }), cursor: '42' }),
  })
  expect(await screen.findByTitle("Copy countersign event tail --type drive --subject 'file 1'")).toBeTruthy()
  await user.click(await screen.findByRole('button', { name: /drive\.file_added/ }))
  await user.click(screen.getByRole('link', { name: 'This one alone' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ event: '42' }))
  expect(await screen.findByText(/"size": 7/)).toBeTruthy()
  expect(screen.getAllByTitle('Copy countersign event show 42')).toHaveLength(2)
  await user.click(screen.getByRole('button', { name: 'Show all' }))
  await waitFor(() => expect(router.state.location.search).toEqual({}))
})

test('a dead letter has an address, and what is retried there leads back to all', async () => {
  const { user, router } = openPage('/events?tab=dead&letter=dlv_1', {
    ...answers,
    'GET /api/v1/dead-letters/dlv_1': () => letters[1],
    'POST /api/v1/dead-letters/dlv_1/retry': () => ({ kind: 'delivery' }),
  })
  expect(await screen.findByText('pager was not told that it waits')).toBeTruthy()
  expect(screen.getByTitle('Copy countersign event dlq show dlv_1')).toBeTruthy()
  expect(screen.queryByText('files.write_text failed')).toBeNull()
  await user.click(screen.getByRole('button', { name: 'Retry dlv_1' }))
  expect(await screen.findByText('files.write_text failed')).toBeTruthy()
  expect(router.state.location.search).toEqual({ tab: 'dead' })
})

test('without dead letters there is one next step', async () => {
  const { user, router } = openPage('/events?tab=dead&kind=delivery', {
    ...answers,
    'GET /api/v1/dead-letters': () => ({ items: [], next: null }),
  })
  await user.click(await screen.findByRole('button', { name: 'Show all' }))
  await user.click(await screen.findByRole('link', { name: 'To the events' }))
  await waitFor(() => expect(router.state.location.search).toEqual({}))
})

test('dead letters of every kind stand together by what went wrong, and what was refused stays', async () => {
  const { server, user } = openPage('/events?tab=dead', {
    ...answers,
    'POST /api/v1/dead-letters/dlt_1/retry': () =>
      new Refused(422, {
        code: 'invalid_request',
        title: 'Invalid',
        detail: 'there is no group `billing` any more',
        type: '',
        status: 422,
      }),
    'POST /api/v1/dead-letters/dlv_1/retry': () => ({ kind: 'delivery' }),
  })
  const gone = within(await screen.findByRole('region', { name: 'it answered\\u{202e} 410' }))
  expect(gone.getByText('drive.file_added, given up by the group billing')).toBeTruthy()
  expect(gone.getByText('pager was not told that it waits')).toBeTruthy()
  expect(screen.getByText('files.write_text failed')).toBeTruthy()
  await user.click(gone.getByRole('button', { name: 'The event' }))
  expect(gone.getByText(/"size": 7/)).toBeTruthy()
  await user.click(gone.getByRole('button', { name: 'Retry 2' }))
  expect(await screen.findByText('1 dead letter on the way once more.')).toBeTruthy()
  expect(await screen.findByText(/there is no group `billing` any more/)).toBeTruthy()
  const sent = server.asked.filter(asked => asked.method === 'POST').map(asked => asked.path)
  expect(sent).toEqual(['/api/v1/dead-letters/dlt_1/retry', '/api/v1/dead-letters/dlv_1/retry'])
})

test('a dead letter is dropped after a question', async () => {
  const { server, user } = openPage('/events?tab=dead', { ...answers, 'POST /api/v1/dead-letters/dlv_1/drop': () => null })
  await user.click(await screen.findByRole('button', { name: 'Drop dlv_1' }))
  const dialog = await screen.findByRole('dialog')
  expect(dialog.textContent).toContain('countersign event dlq drop dlv_1')
  const sent = () => server.asked.filter(asked => asked.method === 'POST').map(asked => asked.path)
  expect(sent()).toEqual([])
  await user.click(within(dialog).getByRole('button', { name: 'Drop' }))
  await waitFor(() => expect(sent()).toEqual(['/api/v1/dead-letters/dlv_1/drop']))
})

test('a call that was given up is made again in a session of one’s own, with other params if they are written', async () => {
  const { server, user } = openPage('/events?tab=dead&kind=invocation', {
    ...answers,
    'POST /api/v1/sessions': () => ({ id: 'ses_mine' }),
    'POST /api/v1/dead-letters/inv_held/retry': () => ({ kind: 'invocation', invocation_id: 'inv_new', status: 'pending' }),
  })
  await user.click(await screen.findByRole('button', { name: 'Retry inv_held' }))
  const dialog = within(await screen.findByRole('dialog'))
  const bodies = () => server.asked.filter(asked => asked.path.endsWith('/retry')).map(asked => asked.body)
  await user.click(await dialog.findByLabelText('With other params'))
  const path = await dialog.findByLabelText(/^path/i)
  await user.clear(path)
  await user.type(path, 'other.txt')
  await user.click(dialog.getByRole('button', { name: 'Call it again' }))
  await waitFor(() => expect(bodies()).toEqual([{ session: 'ses_mine', params: { ...failed.params, path: 'other.txt' } }]))
  expect(await screen.findByText('Called again: inv_new pending.')).toBeTruthy()
  expect(server.asked.some(asked => asked.path.startsWith('/api/v1/dead-letters?kind=invocation'))).toBe(true)
})

test('whoever only reads is offered neither', async () => {
  openPage('/events?tab=dead', { ...answers, 'GET /api/v1/whoami': () => ({ ...admin, permissions: ['read'] }) })
  expect(await screen.findByText('files.write_text failed')).toBeTruthy()
  expect(screen.queryByRole('button', { name: /^(Retry|Drop)/ })).toBeNull()
})

test('each consumer group says how far it is, what it lost, and how it goes on elsewhere', async () => {
  const group = {
    name: 'billing',
    cursor: 58,
    in_flight: 2,
    behind: 3,
    overtaken: true,
    lost: 1,
    deliveries_max: 5,
    created_by: 'user:usr_x',
  }
  openPage('/events?tab=groups', {
    'GET /api/v1/event-groups': () => ({ items: [group, { ...group, name: 'automations', created_by: null }] }),
  })
  const rows = await within(await screen.findByRole('list', { name: 'Consumer groups' })).findAllByRole('listitem')
  expect(rows[0]?.textContent).toContain('at 58 · 3 behind · 2 in flight')
  expect(rows[0]?.textContent).toContain('overtaken: 1 event was dropped before it had them')
  expect(rows.map(row => within(row).queryByTitle(/^Copy countersign event group reset billing --to now/) !== null)).toEqual([true, false])
})
