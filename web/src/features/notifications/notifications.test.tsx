import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import type { Invocation } from '@/api/types'
import { admin, openPage } from '@/test/page'
import { base } from '@/test/server'
import type { Message } from './queries'

const RUN = 'run_01m7nj1df5bz1qctfgn0xbf77g'
const AUTOMATION = 'aut_01m7nj1df5bz1qctfgn0xbf77g'
const message = (id: string, more: Partial<Message> = {}): Message => ({
  id,
  space_id: 'spc_1',
  invocation_id: 'inv_a',
  title: `Title of ${id}`,
  body: 'Lunch\nis ready',
  created_at: '2026-11-17T12:00:00Z',
  ...more,
})
const sent: Invocation = { ...base, id: 'inv_a', status: 'succeeded', session_title: 'Nightly triage', reason: null }
const step: Invocation = {
  ...sent,
  id: 'inv_b',
  principal: `automation:${AUTOMATION}`,
  session_title: 'Morning note',
  trace_id: RUN,
  reason: 'step `tell` of the automation `Morning note`',
}

/** A server that has these messages, and how to give it more of them, with the event that tells of each. */
function open(path: string, messages: Message[]) {
  const page = openPage(path, {
    'GET /api/v1/notifications': ({ path }) => {
      const query = new URL(path, 'http://localhost').searchParams
      const after = query.get('after') ?? '~'
      const older = messages.filter(each => each.id < after)
      const items = older.slice(0, Number(query.get('limit')))
      return { items, next: items.length < older.length ? items.at(-1)?.id : null }
    },
    'GET /api/v1/invocations/inv_a': () => ({ invocation: sent }),
    'GET /api/v1/invocations/inv_b': () => ({ invocation: step }),
  })
  const arrives = (one: Message, cursor: number, type = 'invocation.succeeded') => {
    messages.unshift(one)
    const event = { specversion: '1.0', type, subject: 'inv_a', data: { action: 'notify.send' } }
    page.server.tell(`event: ${type}\ndata: ${JSON.stringify(event)}\nid: ${cursor}\n\n`)
  }
  return { ...page, arrives }
}

const rows = async () => within(await screen.findByRole('list', { name: 'Notifications' })).getAllByRole('listitem')
const inRow = async (at: number) => within((await rows())[at] as HTMLElement)

test('messages are text, with whoever sent them', async () => {
  open('/notifications', [
    message('ntf_3', { invocation_id: 'inv_b', title: '<b>Hi</b>\u{202e}', body: '<img src=x>\u{200b}\nsecond line' }),
    message('ntf_2'),
    message('ntf_1', { invocation_id: null, title: 'A run was quarantined', body: `\`${RUN}\` of the automation \`${AUTOMATION}\`: why.` }),
  ])
  const first = await inRow(0)
  expect(first.getByText('<b>Hi</b>\\u{202e}')).toBeTruthy()
  expect(first.getByText(/^<img src=x>\\u\{200b\}\s*second line$/)).toBeTruthy()
  expect((await first.findByRole('link', { name: 'Morning note' })).getAttribute('href')).toBe(`/automations/${AUTOMATION}`)
  expect(first.getByRole('link', { name: `run ${RUN}` }).getAttribute('href')).toBe(`/runs/${RUN}?step=tell`)
  expect(first.getByRole('link', { name: 'The call' }).getAttribute('href')).toBe('/invocations/inv_b')
  const second = await inRow(1)
  expect((await second.findByRole('link', { name: 'Nightly triage' })).getAttribute('href')).toBe(`/policies/sessions/${base.session_id}`)
  const third = await inRow(2)
  expect(third.getByText('the server itself')).toBeTruthy()
  expect(third.getByRole('link', { name: 'The run' }).getAttribute('href')).toBe(`/runs/${RUN}`)
  expect(third.getByRole('link', { name: 'The automation' }).getAttribute('href')).toBe(`/automations/${AUTOMATION}`)
  expect(third.queryByRole('link', { name: 'The call' })).toBeNull()
  expect(screen.getByTitle('Copy countersign notification list')).toBeTruthy()
})

test('what came since the last look is counted beside the page and marked on it, and then it is read', async () => {
  localStorage.setItem(`read ${admin.principal}`, 'ntf_1')
  const { router } = open('/receipts', [message('ntf_3'), message('ntf_2'), message('ntf_1')])
  expect(await screen.findByRole('link', { name: 'Notifications 2 waiting' })).toBeTruthy()
  await router.navigate({ to: '/notifications' })
  const marks = (await rows()).map(row => within(row).queryByText('new') !== null)
  expect(marks).toEqual([true, true, false])
  expect(await screen.findByRole('link', { name: 'Notifications' })).toBeTruthy()
  expect(localStorage.getItem(`read ${admin.principal}`)).toBe('ntf_3')
  await router.navigate({ to: '/receipts' })
  await router.navigate({ to: '/notifications' })
  await rows()
  expect(screen.queryByText('new')).toBeNull()
})

test('what arrives is counted at once, and waits behind a button', async () => {
  const { user, arrives } = open('/notifications', [message('ntf_1')])
  await screen.findByText('Title of ntf_1')
  await screen.findByRole('link', { name: 'Notifications' })
  arrives(message('ntf_2'), 5)
  const button = await screen.findByRole('button', { name: '1 new' })
  expect(screen.queryByText('Title of ntf_2')).toBeNull()
  expect(screen.getByRole('link', { name: 'Notifications 1 waiting' })).toBeTruthy()
  await user.click(button)
  expect((await inRow(0)).getByText('Title of ntf_2')).toBeTruthy()
  await screen.findByRole('link', { name: 'Notifications' })
  expect(screen.queryByRole('button', { name: / new$/ })).toBeNull()
})

test('a run in quarantine and a disabled trigger are told of at once, on every page', async () => {
  const { arrives } = open('/receipts', [])
  await screen.findByText('live')
  arrives(message('ntf_1', { invocation_id: null }), 5, 'automation.run.quarantined')
  expect(await screen.findByRole('link', { name: 'Notifications 1 waiting' })).toBeTruthy()
  arrives(message('ntf_2', { invocation_id: null }), 6, 'automation.trigger_disabled')
  expect(await screen.findByRole('link', { name: 'Notifications 2 waiting' })).toBeTruthy()
})

test('older ones are read when they are asked for', async () => {
  const ids = Array.from({ length: 25 }, (_, at) => `ntf_${String(25 - at).padStart(2, '0')}`)
  const { user } = open(
    '/notifications',
    ids.map(id => message(id)),
  )
  expect(await rows()).toHaveLength(20)
  await user.click(screen.getByRole('button', { name: 'Older' }))
  await waitFor(async () => expect(await rows()).toHaveLength(25))
})

test('a message has an address, where it stands alone', async () => {
  const { user, router } = open('/notifications', [message('ntf_3'), message('ntf_2'), message('ntf_1')])
  await user.click((await inRow(1)).getByRole('link', { name: 'This one alone' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ notification: 'ntf_2' }))
  await waitFor(() => expect(screen.queryByText('Title of ntf_3')).toBeNull())
  expect((await inRow(0)).getByText('Title of ntf_2')).toBeTruthy()
  await router.navigate({ to: '/notifications', search: { notification: 'ntf_0' } })
  expect(await screen.findByText('There is no such message, or no longer')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Show all' }))
  expect(await rows()).toHaveLength(3)
})

test('without messages there is one next step', async () => {
  open('/notifications', [])
  const link = await screen.findByRole('link', { name: 'Begin with an automation that tells people' })
  expect(link.getAttribute('href')).toBe('/automations/gallery')
})

test('what the server itself said and nobody has seen stands above the calls that wait', async () => {
  const { user, router } = open('/', [message('ntf_2'), message('ntf_1', { invocation_id: null })])
  await user.click(await screen.findByRole('link', { name: '1 message from the server itself' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/notifications'))
  await screen.findByRole('link', { name: 'Notifications' })
  await router.navigate({ to: '/' })
  await screen.findByText('Nothing waits for you')
  expect(screen.queryByRole('link', { name: /from the server itself/ })).toBeNull()
})
