// What stands around every page.
import { renderHook, screen, waitFor, within } from '@testing-library/react'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { useBadge } from '@/lib/notice'
import { openPage } from '@/test/page'
import { base, Refused } from '@/test/server'
import { PLACES } from './places'

/** The browser's notifications, without a browser. */
class Shown {
  static permission = 'default'
  static all: Shown[] = []
  static async requestPermission() {
    Shown.permission = 'granted'
    return Shown.permission
  }
  onclick = () => {}
  close = vi.fn()
  constructor(
    readonly title: string,
    readonly options: { body: string },
  ) {
    Shown.all.push(this)
  }
}

beforeEach(() => {
  localStorage.clear()
  Shown.permission = 'default'
  Shown.all = []
  vi.stubGlobal('isSecureContext', true)
  vi.stubGlobal('Notification', Shown)
})
afterEach(() => {
  vi.restoreAllMocks()
  document.documentElement.classList.remove('dark')
})

const none = () => ({ items: [], next: null })
const open = (answers: Parameters<typeof openPage>[1] = {}) => openPage('/policies/grants', { 'GET /api/v1/grants': none, ...answers })

test('two keys go to a page, and the sheet of keys has them all', async () => {
  expect(new Set(PLACES.map(place => place.keys)).size).toBe(PLACES.length)
  const { user, router } = open()
  await screen.findByRole('button', { name: 'Light or dark' })
  for (const [keys, path] of [
    ['gr', '/runs'],
    ['ga', '/automations'],
    ['gi', '/'],
  ] as const) {
    await user.keyboard(keys)
    await waitFor(() => expect(router.state.location.pathname).toBe(path))
  }
  await user.keyboard('?')
  const sheet = await screen.findByRole('dialog', { name: 'Keys' })
  for (const place of PLACES) expect(sheet.textContent).toContain(`${place.keys.toUpperCase()}${place.name}`)
})

test('the palette has every page and command before anything is typed', async () => {
  const { user } = open()
  await screen.findByRole('button', { name: 'Notify me' })
  await user.keyboard('{Control>}k{/Control}')
  const found = await screen.findByRole('listbox', { name: 'Found' })
  const texts = within(found)
    .getAllByRole('option')
    .map(option => option.lastElementChild?.textContent)
  for (const text of [...PLACES.map(place => place.name), 'Notify me in this browser', 'Theme: as the system'])
    expect(texts).toContain(text)
})

test('the palette finds what has a name, and what the keys choose is in sight', async () => {
  const scrolled = vi.fn()
  const before = Element.prototype.scrollIntoView
  Element.prototype.scrollIntoView = scrolled
  const list = (...items: object[]) => ({ items, next: null })
  const { user, router } = openPage('/actions', {
    'GET /api/v1/sessions': () => list({ id: 'ses_7', title: 'Refund the customers' }),
    'GET /api/v1/spaces': () => list({ id: 'spc_7', name: 'production' }),
    'GET /api/v1/grants': () => list({ id: 'grt_7', covers: 'shop.refund', session_title: 'Refund the customers', state: 'active' }),
    'GET /api/v1/runs': () => list({ id: 'run_7', automation_name: 'Morning note', status: 'waiting', created_at: base.created_at }),
    // This one may not be listed by everybody.
    'GET /api/v1/secrets': () => new Refused(403, { code: 'forbidden', detail: 'no', status: 403 }),
  })
  await screen.findByText('live')
  await user.keyboard('{Control>}k{/Control}')
  const found = await screen.findByRole('listbox', { name: 'Found' })
  await user.keyboard('{ArrowDown}')
  Element.prototype.scrollIntoView = before
  expect(scrolled.mock.contexts.at(-1)).toBe(within(found).getByRole('option', { selected: true }))
  const field = screen.getByRole('combobox')
  for (const [typed, kinds] of [
    ['refund the', ['session', 'grant']],
    ['produc', ['space']],
    ['morning', ['run']],
  ] as const) {
    await user.clear(field)
    await user.type(field, typed)
    await waitFor(() =>
      expect(
        within(found)
          .getAllByRole('option')
          .map(each => each.firstElementChild?.textContent),
      ).toEqual(kinds),
    )
  }
  await user.keyboard('{Enter}')
  await waitFor(() => expect(router.state.location.pathname).toBe('/runs/run_7'))
})

test('where no pill says so, a line says that the stream is not live', async () => {
  open({ 'GET /api/v1/stream': () => new Refused(500, { code: 'internal', detail: 'no', status: 500 }) })
  expect(await screen.findByText('The live stream is reconnecting: what you see may be old.')).toBeTruthy()
})

test('the theme is changed, and kept', async () => {
  const { user } = open()
  const button = await screen.findByRole('button', { name: 'Light or dark' })
  const theme = () => [document.documentElement.classList.contains('dark'), localStorage.getItem('theme')]
  await user.click(button)
  expect(theme()).toEqual([true, 'dark'])
  await user.click(button)
  expect(theme()).toEqual([false, 'light'])
})

test('a kill switch is told on every page at once', async () => {
  let items: unknown[] = []
  const { server } = open({ 'GET /api/v1/kill-switches': () => ({ items, next: null }) })
  await screen.findByText('live')
  items = [{ scope: 'source:files' }]
  server.event('switch.on', 'source:files', 5)
  expect(await screen.findByText(/A kill switch is on: source:files\. Nothing there runs\./)).toBeTruthy()
  items = []
  server.event('switch.off', 'source:files', 6)
  await waitFor(() => expect(screen.queryByText(/A kill switch is on/)).toBeNull())
})

test('notifications are asked for, say nothing of a call, and lead to the newest', async () => {
  const call = (id: string) => ({ invocation: { ...base, id, expires_at: new Date(Date.now() + 240_000).toISOString() } })
  const focus = vi.fn()
  vi.stubGlobal('focus', focus)
  const { server, user, router } = open({
    'GET /api/v1/invocations/inv_a': () => call('inv_a'),
    'GET /api/v1/invocations/inv_b': () => call('inv_b'),
  })
  const told = () => Shown.all.map(each => each.options.body)
  const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true)
  await screen.findByText('live')
  server.event('invocation.held', 'inv_a', 5)
  await waitFor(() => expect(document.title).toBe('(1) Grants · Countersign'))
  expect(told()).toEqual([])
  await user.click(screen.getByRole('button', { name: 'Notify me' }))
  await screen.findByText('Notified')
  expect(told()).toEqual(['You will be told when a call waits and this page is hidden.'])
  server.event('invocation.held', 'inv_b', 6)
  await waitFor(() => expect(told().slice(1)).toEqual(['2 calls wait for a person.']))
  Shown.all[1]?.onclick()
  await waitFor(() => expect(router.state.location).toMatchObject({ pathname: '/', search: { call: 'inv_b' } }))
  expect([focus, Shown.all[1]?.close].map(each => each?.mock.calls.length)).toEqual([1, 1])
  hidden.mockRestore()
  await user.click(screen.getByRole('button', { name: 'stop' }))
  expect(await screen.findByRole('button', { name: 'Notify me' })).toBeTruthy()
})

test('a login that ends is told to whoever looks elsewhere, and a login in another tab takes it back', async () => {
  const icon = document.head.appendChild(Object.assign(document.createElement('link'), { rel: 'icon' }))
  const fillText = vi.fn()
  const context = { beginPath() {}, roundRect() {}, fill() {}, fillText }
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never)
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(true)
  Shown.permission = 'granted'
  localStorage.setItem('notify', 'on')
  let word = 'of ada'
  const checked = (answer: unknown) => () => (word ? answer : new Refused(401, { code: 'unauthenticated', detail: 'nobody', status: 401 }))
  const { server } = open({
    'GET /login/word': () => ({ word }),
    'GET /api/v1/whoami': () => checked({ ...base, name: word.slice(3), role: 'owner', permissions: [] })(),
    'GET /api/v1/stream': checked('events'),
  })
  await screen.findByText('live')
  await screen.findByText('ada')
  word = ''
  server.tell('event: problem\ndata: {}\n\n')
  await screen.findByText(/You are not logged in here, or no longer\./)
  expect(await screen.findByText('logged out')).toBeTruthy()
  expect([document.title, fillText.mock.lastCall?.[0]]).toEqual(['Logged out · Countersign', '!'])
  expect(Shown.all.map(each => each.options.body)).toEqual(['You are logged out: no more calls are told here.'])
  word = 'of bob'
  await screen.findByText('live')
  await screen.findByText('bob')
  expect(screen.queryByText(/You are not logged in here/)).toBeNull()
  expect([document.title, icon.getAttribute('href')]).toEqual(['Grants · Countersign', '/favicon.svg'])
  icon.remove()
})

test('the icon of the tab has the number of calls that wait', () => {
  const icon = document.head.appendChild(Object.assign(document.createElement('link'), { rel: 'icon' }))
  const fillText = vi.fn()
  const context = { beginPath() {}, roundRect() {}, fill() {}, fillText }
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never)
  vi.spyOn(HTMLCanvasElement.prototype, 'toDataURL').mockReturnValue('data:image/png,3')
  const { rerender } = renderHook(useBadge, { initialProps: 3 })
  expect([icon.type, icon.getAttribute('href')]).toEqual(['image/png', 'data:image/png,3'])
  rerender(12)
  expect(fillText.mock.calls.map(([text]) => text)).toEqual(['3', '9+'])
  rerender(0)
  expect([icon.type, icon.getAttribute('href')]).toEqual(['image/svg+xml', '/favicon.svg'])
  icon.remove()
})
