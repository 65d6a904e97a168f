import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'

const event = (id: string, type: string, subject: string, data: object = {}) => ({
  specversion: '1.0',
  id,
  source: '/orgs/org_x',
  type,
  subject,
  time: new Date().toISOString(),
  cursor: '1',
  data,
})
const letter = {
  id: 'dlv_1',
  channel: 'chn_1',
  invocation_id: 'inv_1',
  moment: 'pending',
  state: 'dead',
  attempts: 3,
  problem: 'it answered\u{202e} 410',
  created_at: new Date().toISOString(),
  ended_at: new Date().toISOString(),
}
const channel = { id: 'chn_1', name: 'pager', kind: 'webhook', settings: {}, tiers: [], bands: [], after_seconds: 0, dead: 1 }
const answers: Parameters<typeof openPage>[1] = {
  'GET /api/v1/channels': () => ({ items: [channel], next: null }),
  'GET /api/v1/deliveries': () => ({ items: [letter], next: null }),
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

test('a dead letter is delivered once more, or dropped after a question', async () => {
  const { server, user } = openPage('/events?tab=dead', {
    ...answers,
    'POST /api/v1/channels/chn_1/retry': () => ({ retried: 1 }),
    'POST /api/v1/channels/chn_1/drop': () => ({ dropped: 1 }),
  })
  expect(await screen.findByText('it answered\\u{202e} 410')).toBeTruthy()
  const sent = () => server.asked.filter(asked => asked.method === 'POST')
  await user.click(await screen.findByRole('button', { name: 'Retry dlv_1' }))
  await waitFor(() => expect(sent()[0]?.body).toEqual({ delivery: 'dlv_1' }))
  await user.click(screen.getByRole('button', { name: 'Drop all' }))
  const dialog = await screen.findByRole('dialog')
  expect(dialog.textContent).toContain('countersign channel drop pager')
  expect(sent()).toHaveLength(1)
  await user.click(within(dialog).getByRole('button', { name: 'Drop' }))
  await waitFor(() => expect(sent()[1]?.path).toBe('/api/v1/channels/chn_1/drop'))
  expect(sent()[1]?.body).toEqual({})
})
