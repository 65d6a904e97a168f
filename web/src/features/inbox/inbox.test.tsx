// The inbox as a person uses it, with a server of a few lines.
import { QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRouter, RouterProvider } from '@tanstack/react-router'
import { render, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { beforeEach, expect, test, vi } from 'vitest'
import type { Invocation } from '@/api/types'
import { ToastProvider } from '@/components/toasts'
import { EventsProvider } from '@/lib/events'
import { FreshQueryClient } from '@/lib/query-client'
import { router } from '@/router'
import { base, me, Refused, serve } from '@/test/server'
import { ShelfProvider } from './shelf'

const soon = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
const call = (id: string, more: Partial<Invocation> = {}): Invocation => ({
  ...base,
  id,
  session_title: 'Nightly triage',
  expires_at: soon(4),
  ...more,
})

function open(calls: Invocation[], more: Parameters<typeof serve>[0] = {}) {
  const known = new Map(calls.map(item => [item.id, item]))
  const each = Object.fromEntries(
    calls.flatMap(item => [
      [`GET /api/v1/invocations/${item.id}`, () => ({ invocation: known.get(item.id) })],
      [
        `GET /api/v1/invocations/${item.id}/foresight`,
        () => ({
          changes: { path: 'notes/w2.txt', change: 'would_create', added_lines: 1, diff: '+hello\n' },
          approvals_needed: 1,
          facts: [
            { label: 'Decision', text: 'inferred from the tier: require_approval' },
            { label: 'Session holds', text: 'private_data since ', at: soon(-3), more: ', from files.read_text', tone: 'warn' },
            { label: 'Reversible', text: 'yes' },
          ],
        }),
      ],
    ]),
  )
  const list = ({ path }: { path: string }) => ({
    items: path.includes('status=pending') ? [...known.values()].filter(item => item.status === 'pending') : [],
    next: null,
  })
  const server = serve({ 'GET /api/v1/invocations': list, ...each, ...more })
  const client = new FreshQueryClient({ defaultOptions: { queries: { retry: false } } })
  const own = createRouter({ routeTree: router.routeTree, history: createMemoryHistory({ initialEntries: ['/'] }) })
  render(
    <QueryClientProvider client={client}>
      <EventsProvider>
        <ShelfProvider>
          <ToastProvider>
            <RouterProvider router={own as typeof router} />
          </ToastProvider>
        </ShelfProvider>
      </EventsProvider>
    </QueryClientProvider>,
  )
  return { server, known, user: userEvent.setup(), router: own }
}

/** A request that does something: what is only asked about a call is none. */
const isSent = ({ method, path }: { method: string; path: string }) =>
  method === 'POST' && !['/api/v1/explain', '/api/v1/policies/what-if'].includes(path)

/** What the beginning of the stream makes old was read again: from now on only events tell. */
async function listens(server: ReturnType<typeof serve>, id: string): Promise<void> {
  const reads = () => server.asked.filter(({ path }) => path === `/api/v1/invocations/${id}`).length
  await screen.findByText('live')
  const before = reads()
  server.event('invocation.held', id, 4)
  await waitFor(() => expect(reads()).toBeGreaterThan(before))
}

const rows = () => within(screen.getByRole('list', { name: 'Calls' })).getAllByRole('listitem')

beforeEach(() => {
  // Without a layout every list is empty: give the scroller a height.
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(800)
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(400)
  vi.stubGlobal('matchMedia', () => ({ matches: true, addEventListener() {}, removeEventListener() {} }))
})

test('the card answers without a click, and one key approves what was shown', async () => {
  const item = call('inv_a', { reason: 'keep the\u{202e} notes' })
  const { server, user } = open([item], {
    'POST /api/v1/invocations/inv_a/approve': () => ({
      invocation: { ...item, status: 'succeeded', answer: { by: 'user:usr_x', at: soon(0) } },
    }),
  })
  const card = await screen.findByRole('article')
  for (const text of [
    'What will be sent',
    'notes/w2.txt',
    'What would change',
    'Why you are asked',
    'inferred from the tier: require_approval',
    ', from files.read_text',
    'Can it be taken back',
    'What happened before',
    'What an approval covers',
  ])
    await waitFor(() => expect(card.textContent).toContain(text))
  await waitFor(() => expect(card.textContent).toContain('+ would create'))
  expect(card.textContent).toContain('The agent’s own words: “keep the\\u{202e} notes”')
  await user.keyboard('a')
  await waitFor(() => expect(card.textContent).toContain('Approved by Ada just now, and it succeeded.'))
  const sent = server.asked.find(isSent)
  expect(sent?.body).toEqual({ binding: base.binding?.digest })
  expect(sent?.headers.get('x-countersign-csrf')).toBe('w0rd')
  // The row stays, in grey, until it is cleared away.
  expect(rows()).toHaveLength(1)
  expect(screen.getByRole('button', { name: /clear 1 ended/ })).toBeTruthy()
})

test('a denial carries its reason, and can be taken back for a moment', async () => {
  const { server, user } = open([call('inv_a')], {
    'POST /api/v1/invocations/inv_a/deny': () => ({ invocation: call('inv_a', { status: 'denied', denied_by: 'person' }) }),
  })
  await screen.findByRole('button', { name: /Deny/ })
  await user.keyboard('d')
  await user.type(await screen.findByLabelText(/Why\?/), 'not today{Enter}')
  await user.click(await screen.findByRole('button', { name: 'Undo' }))
  expect(server.asked.some(isSent)).toBe(false)
  await user.keyboard('d')
  await user.type(await screen.findByLabelText(/Why\?/), 'no{Enter}')
  window.dispatchEvent(new Event('pagehide'))
  await waitFor(() => expect(server.asked.find(isSent)?.body).toEqual({ reason: 'no' }))
})

test('a denial is sent when the page is hidden, and the page knows it when it is shown again', async () => {
  const { server, user } = open([call('inv_a')], {
    'POST /api/v1/invocations/inv_a/deny': () => ({ invocation: call('inv_a', { status: 'denied', denied_by: 'person' }) }),
  })
  await screen.findByRole('button', { name: /Deny/ })
  await user.keyboard('d')
  await user.type(await screen.findByLabelText(/Why\?/), 'no{Enter}')
  await screen.findByText('Denying in a moment…')
  const fetched = vi.spyOn(globalThis, 'fetch')
  const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true)
  document.dispatchEvent(new Event('visibilitychange'))
  // At once: whatever would be awaited may never come.
  expect(fetched.mock.calls.map(([address]) => address)).toEqual(['/api/v1/invocations/inv_a/deny'])
  hidden.mockRestore()
  await waitFor(() => expect(server.asked.filter(isSent).map(each => each.body)).toEqual([{ reason: 'no' }]))
  await waitFor(() => expect(screen.getByRole('article').textContent).toContain('Denied.'))
  expect(screen.queryByText('Denying in a moment…')).toBeNull()
})

test('an answer that could not be sent says of which call and what to do, until it is dismissed', async () => {
  const problem = {
    code: 'store_unavailable',
    title: 'The store is away',
    detail: 'nothing was written',
    hint: 'try it again',
    type: '',
    status: 503,
  }
  const refuse = () => new Refused(503, problem)
  const { user } = open([call('inv_a'), call('inv_b', { params: { path: 'b.txt' }, expires_at: soon(9) })], {
    'POST /api/v1/invocations/inv_a/deny': refuse,
    'POST /api/v1/invocations/inv_b/approve': refuse,
  })
  await screen.findByText('+ would create')
  await user.keyboard('d')
  await user.type(await screen.findByLabelText(/Why\?/), 'no{Enter}')
  // The person looks at another call by now.
  await user.keyboard('j')
  window.dispatchEvent(new Event('pagehide'))
  const denial = await screen.findByText(/^files\.write_text · path: notes\/w2\.txt · .*: nothing was written/)
  expect(denial.textContent).toContain('try it again')
  await waitFor(() => expect(rows()[1]?.querySelector('[aria-current]')).toBeTruthy())
  await screen.findByText('+ would create')
  await user.keyboard('a')
  expect((await screen.findByText(/^files\.write_text · path: b\.txt: nothing was written/)).textContent).toContain('try it again')
  for (const button of screen.getAllByRole('button', { name: 'Dismiss' })) await user.click(button)
  expect(screen.queryByText(/nothing was written/)).toBeNull()
})

test('a dangerous call takes no single key', async () => {
  const item = call('inv_a', { tier: 'R4', class: 'danger' })
  const { server, user } = open([item], {
    'POST /api/v1/invocations/inv_a/approve': () => ({ invocation: { ...item, status: 'succeeded' } }),
  })
  const hold = await screen.findByRole('button', { name: /Hold to approve/ })
  await waitFor(() => expect(hold.hasAttribute('disabled')).toBe(false))
  await user.keyboard('a')
  const typed = await screen.findByLabelText(/type files.write_text/)
  await user.type(typed, 'files.write{Enter}')
  expect(server.asked.some(isSent)).toBe(false)
  await user.type(typed, '_text{Enter}')
  await waitFor(() =>
    expect(server.asked.find(isSent)?.body).toEqual({
      binding: base.binding?.digest,
      confirm: 'files.write_text',
    }),
  )
})

test.each([
  ['d', 'Deny'],
  ['g', 'Approve and grant'],
  ['{Shift>}a{/Shift}', 'Approve and always allow'],
  ['e', 'Approve as edited'],
])('a dialog says that its call has ended, and sends nothing more: %s', async (key, verb) => {
  const { server, known, user } = open([call('inv_a')], {
    [`GET /api/v1/sessions/${base.session_id}`]: () => ({ id: base.session_id, title: 'Morning note' }),
  })
  await screen.findByText('+ would create')
  await listens(server, 'inv_a')
  await user.keyboard(key)
  const dialog = await screen.findByRole('dialog')
  if (key === 'e') await user.type(await within(dialog).findByLabelText(/^path/), 'x')
  const button = within(dialog).getByRole('button', { name: verb })
  await waitFor(() => expect(button).toHaveProperty('disabled', false))
  known.set('inv_a', call('inv_a', { status: 'denied', denied_by: 'person', answer: { by: 'user:bob', at: soon(0) } }))
  server.event('invocation.denied', 'inv_a', 5)
  await waitFor(() => expect(dialog.textContent).toContain('Denied by user:bob just now.'))
  expect(button).toHaveProperty('disabled', true)
})

test('an edit is of what was shown: what another person edited meanwhile is not overwritten', async () => {
  const shown = base.binding?.digest
  const edited = call('inv_a', { params: { path: 'theirs.txt', text: '' }, binding: { digest: 'theirs', expires_at: soon(4) } })
  const refusal = { code: 'args_mismatch', title: '', detail: 'the params are not the ones that were shown', type: '', status: 409 }
  const { server, known, user } = open([call('inv_a')], { 'POST /api/v1/invocations/inv_a/approve': () => new Refused(409, refusal) })
  await screen.findByText('+ would create')
  await listens(server, 'inv_a')
  await user.keyboard('e')
  await user.type(await screen.findByLabelText(/^path/), 'x')
  known.set('inv_a', edited)
  server.event('invocation.approval_counted', 'inv_a', 5)
  await screen.findByRole('heading', { name: /path: theirs\.txt/ })
  await user.click(screen.getByRole('button', { name: 'Approve as edited' }))
  // The dialog is gone, and the card shows what the other person made of it.
  expect(await screen.findByText(/: the params are not the ones that were shown$/)).toBeTruthy()
  expect(screen.queryByRole('dialog')).toBeNull()
  expect(server.asked.filter(isSent).map(each => each.body)).toMatchObject([{ binding: shown, params: { path: `${base.params.path}x` } }])
})

test('a refusal of what still waits as it was shown stays in its dialog', async () => {
  const refusal = { code: 'policy_mismatch', title: 'A rule refuses it', detail: 'not there', type: '', status: 409 }
  const { user } = open([call('inv_a')], { 'POST /api/v1/invocations/inv_a/approve': () => new Refused(409, refusal) })
  await screen.findByText('+ would create')
  await user.keyboard('e')
  const dialog = await screen.findByRole('dialog')
  await user.type(await within(dialog).findByLabelText(/^path/), 'x')
  await user.click(within(dialog).getByRole('button', { name: 'Approve as edited' }))
  await waitFor(() => expect(dialog.textContent).toContain('A rule refuses it'))
  expect(within(dialog).getByLabelText(/^path/)).toHaveProperty('value', `${base.params.path}x`)
})

test('edited params keep their types', async () => {
  const item = call('inv_a')
  const { server, user } = open([item], {
    'POST /api/v1/invocations/inv_a/approve': () => ({ invocation: { ...item, status: 'succeeded' } }),
  })
  await screen.findByText('+ would create')
  await user.keyboard('e')
  const path = await screen.findByLabelText(/^path/)
  await user.clear(path)
  await user.type(path, '42')
  await user.click(screen.getByRole('button', { name: 'Approve as edited' }))
  await waitFor(() => expect(server.asked.find(isSent)?.body).toMatchObject({ params: { path: '42', text: base.params.text } }))
})

test('what is decided elsewhere turns grey, and what arrives waits behind a button', async () => {
  const { server, known, user } = open([call('inv_a'), call('inv_b', { expires_at: soon(9) })])
  await waitFor(() => expect(rows()).toHaveLength(2))
  await screen.findByText('+ would create')
  known.set('inv_a', call('inv_a', { status: 'denied', denied_by: 'person', answer: { by: 'user:bob', at: soon(0) } }))
  known.set('inv_b', call('inv_b', { expires_at: soon(9) }))
  server.event('invocation.denied', 'inv_a', 5)
  await waitFor(() => expect(screen.getByRole('article').textContent).toContain('Denied by user:bob just now.'))
  expect(rows()).toHaveLength(2)
  expect(screen.queryByRole('button', { name: /Approve once/ })).toBeNull()
  await user.keyboard('n')
  await waitFor(() => expect(rows()).toHaveLength(1))
})

test('what a rule voids turns grey, and a kill switch stops the clock, though no event names the call', async () => {
  let switches: unknown[] = []
  const { server, known } = open([call('inv_a')], { 'GET /api/v1/kill-switches': () => ({ items: switches, next: null }) })
  await screen.findByText('+ would create')
  await listens(server, 'inv_a')
  known.set('inv_a', call('inv_a', { expires_at: null, clock_stopped: true }))
  switches = [{ scope: 'org' }]
  server.event('switch.on', 'org', 5)
  await waitFor(() => expect(screen.getByRole('article').textContent).toContain('its time is stopped'))
  expect(await screen.findByText(/A kill switch is on: org\. Nothing there runs\./)).toBeTruthy()
  expect(document.title).toBe('(1) Inbox · Countersign')
  known.set('inv_a', call('inv_a', { void: { code: 'policy_mismatch', message: 'its rules changed' } }))
  server.event('space.changed', 'spc_1', 6)
  await waitFor(() => expect(screen.getByRole('article').textContent).toContain('Void: its rules changed'))
  for (const place of [screen.getByRole('article'), rows()[0] as HTMLElement]) expect(within(place).getByText('void')).toBeTruthy()
  expect(screen.queryByRole('button', { name: /Approve once/ })).toBeNull()
  await waitFor(() => expect(document.title).toBe('Inbox · Countersign'))
})

test('what would change is looked up again when another call has ended, and what nobody has seen is not approved', async () => {
  const item = call('inv_a')
  const changes = (change: string) => ({ changes: { path: 'notes/w2.txt', change } })
  let foresight: unknown = changes('would_create')
  const { server, user } = open([item], {
    'GET /api/v1/invocations/inv_a/foresight': () => foresight,
    'POST /api/v1/invocations/inv_a/approve': () => ({ invocation: { ...item, status: 'succeeded' } }),
  })
  await screen.findByText('+ would create')
  await listens(server, 'inv_a')
  const look = async (cursor: number) => {
    let resolve: (told: unknown) => void = () => {}
    foresight = new Promise(told => {
      resolve = told
    })
    server.event('invocation.succeeded', 'inv_b', cursor)
    await screen.findByText('Looking again…')
    // What was known stays in sight, and an answer waits for what will be.
    await user.keyboard('a')
    await waitFor(() => expect(screen.getByRole('button', { name: /^Approve once/ })).toHaveProperty('disabled', true))
    expect(server.asked.some(isSent)).toBe(false)
    return resolve
  }
  const found = await look(5)
  expect(screen.getByText('+ would create')).toBeTruthy()
  found(changes('would_change'))
  expect(await screen.findByText('files.write_text: what was shown of it no longer holds. Look at it again, then answer.')).toBeTruthy()
  expect(screen.getByText('~ would change')).toBeTruthy()
  expect(screen.queryByText('+ would create')).toBeNull()
  expect(server.asked.some(isSent)).toBe(false)
  // What turns out to be as it was shown is approved at once.
  const same = await look(6)
  same(changes('would_change'))
  await waitFor(() => expect(server.asked.find(isSent)?.body).toEqual({ binding: base.binding?.digest }))
})

test('a dialog approves what its card showed when it was opened, and nothing that it would do since', async () => {
  const changes = (change: string) => ({ changes: { path: 'notes/w2.txt', change } })
  let foresight = changes('would_create')
  const { server, known, user } = open([call('inv_a')], { 'GET /api/v1/invocations/inv_a/foresight': () => foresight })
  await screen.findByText('+ would create')
  await listens(server, 'inv_a')
  await user.keyboard('g')
  const dialog = await screen.findByRole('dialog')
  foresight = changes('would_change')
  server.event('invocation.succeeded', 'inv_b', 5)
  await screen.findByText('~ would change')
  // It was denied, too, which no event has told: then it is read.
  known.set('inv_a', call('inv_a', { status: 'denied', denied_by: 'person', answer: { by: 'user:bob', at: soon(0) } }))
  await user.click(within(dialog).getByRole('button', { name: 'Approve and grant' }))
  expect(await screen.findByText(/what was shown of it no longer holds/)).toBeTruthy()
  await waitFor(() => expect(screen.getByRole('article').textContent).toContain('Denied by user:bob just now.'))
  expect([screen.queryByRole('dialog'), server.asked.some(isSent)]).toEqual([null, false])
})

test('what was put off comes back by itself, also after it was cleared away', async () => {
  const { user } = open([call('inv_a')], {
    'POST /api/v1/invocations/inv_a/snooze': () => ({ id: 'inv_a', until: new Date(Date.now() + 500).toISOString() }),
  })
  await screen.findByText('+ would create')
  await user.keyboard('l')
  await screen.findByText('Put off for 30 minutes. Nothing is decided.')
  expect(screen.getByRole('button', { name: 'clear 1 put off' })).toBeTruthy()
  await user.keyboard('n')
  await waitFor(() => expect(document.title).toBe('(1) Inbox · Countersign'))
  await waitFor(() => expect(rows()).toHaveLength(1))
})

test('what was put off is brought back from its tab', async () => {
  const item = call('inv_a')
  let isPutOff = true
  const { server, user } = open([item], {
    'GET /api/v1/invocations': ({ path }) => ({
      items: path.includes('status=pending') && !(isPutOff && path.includes('awake=true')) ? [item] : [],
      next: null,
    }),
    'POST /api/v1/invocations/inv_a/snooze': () => {
      isPutOff = false
      return { id: 'inv_a', until: soon(0) }
    },
  })
  await user.click(await screen.findByRole('button', { name: 'Later' }))
  await user.click(await screen.findByRole('button', { name: 'Bring back' }))
  expect(await screen.findByText('Nothing was put off')).toBeTruthy()
  await waitFor(() => expect(document.title).toBe('(1) Inbox · Countersign'))
  expect(server.asked.find(isSent)?.body).toEqual({ for: '0s' })
})

test('behind more pending calls than a page has, what was put off and what was decided is found', async () => {
  const many = Array.from({ length: 120 }, (_, at) => call(`inv_b${String(119 - at).padStart(3, '0')}`))
  const late = call('inv_a1', { params: { path: 'late.txt' } })
  const done = call('inv_a0', { params: { path: 'done.txt' }, status: 'succeeded' })
  const all = [...many, late, done]
  const { user } = open(all, {
    'GET /api/v1/invocations': ({ path }) => {
      const query = new URL(path, 'http://localhost').searchParams
      const fits = all.filter(item => !query.has('status') || item.status === query.get('status'))
      const from = fits.findIndex(item => item.id === query.get('after')) + 1
      const items = fits.slice(from, from + Number(query.get('limit')))
      const next = from + items.length < fits.length ? items.at(-1)?.id : null
      return { items: items.filter(item => item !== late || !query.has('awake')), next }
    },
  })
  await waitFor(() => expect(document.title).toBe('(120) Inbox · Countersign'))
  const shows = async (tab: string, path: string) => {
    await user.click(within(screen.getByLabelText('Which calls')).getByRole('button', { name: tab }))
    await screen.findByText(`files.write_text · path: ${path}`, { selector: 'li *' })
    expect(rows()).toHaveLength(1)
  }
  await shows('Later', 'late.txt')
  await shows('Decided', 'done.txt')
})

test('the last decision is the one that was made last, not that of the newest call', async () => {
  const decided = (id: string, minutes: number) => call(id, { status: 'succeeded', answer: { by: 'user:usr_x', at: soon(-minutes) } })
  open([], {
    'GET /api/v1/invocations': ({ path }) => ({
      items: path.includes('status=') ? [] : [call('inv_c', { status: 'succeeded' }), decided('inv_b', 30), decided('inv_a', 10)],
      next: null,
    }),
  })
  expect(await screen.findByText('10 min ago')).toBeTruthy()
})

test('a call that is closed stays closed, whatever arrives, until a person opens one', async () => {
  const other = call('inv_b', { expires_at: soon(1) })
  const { server, known, user } = open([call('inv_a'), other])
  known.delete('inv_b')
  await screen.findByText('+ would create')
  await user.keyboard('{Escape}')
  await screen.findByText('Nothing is selected')
  known.set('inv_b', other)
  server.event('invocation.held', 'inv_b', 5)
  await screen.findByRole('button', { name: '1 new' })
  await user.keyboard('n')
  await waitFor(() => expect(rows()).toHaveLength(2))
  expect(screen.queryByRole('article')).toBeNull()
  await user.keyboard('j')
  expect(await screen.findByRole('article')).toBeTruthy()
})

test('with a selection, A is about all of it and not about the open one', async () => {
  const { server, user } = open([call('inv_a'), call('inv_b', { expires_at: soon(9) }), call('inv_c', { expires_at: soon(20) })])
  const isAt = (row: number) => waitFor(() => expect(rows()[row]?.querySelector('[aria-current]')).toBeTruthy())
  await screen.findByText('+ would create')
  await user.keyboard('x')
  await screen.findByText('1 call selected')
  await user.keyboard('j')
  await isAt(1)
  await user.keyboard('{Shift>}x{/Shift}')
  await screen.findByText('2 calls selected')
  await user.keyboard('a')
  expect((await screen.findByRole('dialog')).textContent).toContain('Approve 2 calls, each once')
  expect(server.asked.some(isSent)).toBe(false)
})

test('“always allow” counts what its rule would have let run: of its automation alone, where it is for one', async () => {
  const { server, user } = open([call('inv_a')], {
    [`GET /api/v1/sessions/${base.session_id}`]: () => ({ id: base.session_id, title: 'Morning note', automation_id: 'aut_1' }),
    'POST /api/v1/policies/what-if': () => ({
      replayed: 12,
      skipped: 0,
      truncated: false,
      changes: ['runs', 'runs', 'asks'].map(after => ({ action: 'files.write_text', after })),
    }),
  })
  await screen.findByText('+ would create')
  await user.keyboard('{Shift>}a{/Shift}')
  const dialog = await screen.findByRole('dialog')
  await waitFor(() =>
    expect(dialog.textContent).toContain('Of 12 calls of this action in the last 7 days, it would have let 2 run without asking'),
  )
  // Enter is yes, not a copied command.
  expect(document.activeElement?.textContent).toBe('Approve and always allow')
  expect(dialog.textContent).toContain('automation aut_1: files.write_text → allow')
  const asked = server.asked.filter(({ path }) => path === '/api/v1/policies/what-if').map(each => each.body)
  const modes = [{ action: 'files.write_text', mode: 'allow', automation: 'aut_1' }]
  expect(asked).toEqual([{ policies: null, modes, last: '7d', action: 'files.write_text' }])
})

test('a number of a grant that is none is refused in words, and nothing is promised', async () => {
  const { user } = open([call('inv_a', { params: { amount: 5 } })])
  await screen.findByText('+ would create')
  await user.keyboard('g')
  const dialog = await screen.findByRole('dialog')
  const says = (words: string) => expect(within(dialog).getByRole('alert').textContent).toBe(words)
  const isOffered = () => [
    dialog.textContent?.includes('run without asking'),
    !within(dialog).getByRole('button', { name: 'Approve and grant' }).hasAttribute('disabled'),
  ]
  const calls = within(dialog).getByRole('textbox', { name: 'Calls' })
  await user.clear(calls)
  await user.type(calls, 'many')
  says('A whole number from 1 up, or nothing for any number of calls.')
  expect(isOffered()).toEqual([false, false])
  await user.clear(calls)
  expect(isOffered()).toEqual([true, true])
  await user.selectOptions(within(dialog).getByLabelText('Adding up'), '/amount')
  await user.type(within(dialog).getByLabelText('To at most'), '1,5')
  says('A number above 0 such as 500 or 12.50, with six decimals at most.')
  expect(isOffered()).toEqual([false, false])
})

test('why a call cannot be edited is written beside the buttons', async () => {
  open([call('inv_a', { params: { text: 'Bearer [redacted]' } })])
  expect(await screen.findByText('The params are not shown whole, so they cannot be edited here.')).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Edit' })).toHaveProperty('disabled', true)
})

test('a late answer is told in a sentence', async () => {
  const problem = {
    code: 'rejected',
    title: 'Denied already',
    detail: 'user:bob denied it 3 s ago',
    type: '/docs/errors/rejected',
    status: 409,
  }
  const { user } = open([call('inv_a')], { 'POST /api/v1/invocations/inv_a/approve': () => new Refused(409, problem) })
  await screen.findByText('+ would create')
  await user.keyboard('a')
  expect(await screen.findByText(/: user:bob denied it 3 s ago$/)).toBeTruthy()
})

test('several are approved once each, and each says what became of it', async () => {
  const drifted = { ...base.decision, tightened_by: ['drift' as const] }
  const calls = [
    call('inv_a'),
    call('inv_b', { session_title: 'Release notes' }),
    call('inv_c', { tier: 'R4', class: 'danger' }),
    call('inv_d', { decision: drifted }),
  ]
  const { server, user } = open(calls, {
    'POST /api/v1/invocations/approve': () => ({
      results: [
        { id: 'inv_a', invocation: { ...calls[0], status: 'succeeded' } },
        { id: 'inv_b', problem: { code: 'expired', detail: 'too late', title: '', type: '', status: 410 } },
      ],
    }),
  })
  await waitFor(() => expect(rows()).toHaveLength(4))
  for (const box of screen.getAllByRole('checkbox')) await user.click(box)
  await user.click(screen.getByRole('button', { name: /Approve each once/ }))
  const dialog = await screen.findByRole('dialog')
  expect(dialog.textContent).toContain('2 calls left out')
  const told = within(dialog).getAllByRole('listitem')
  for (const [at, words] of ['left out: dangerous', 'left out: its definition changed', 'Nightly triage', 'Release notes'].entries())
    expect(told[at]?.textContent).toContain(words)
  expect(document.activeElement?.textContent).toBe('Approve 2 once')
  await user.click(within(dialog).getByRole('button', { name: 'Approve 2 once' }))
  await waitFor(() => expect(dialog.textContent).toContain('1 approved, 1 not'))
  expect(dialog.textContent).toContain('expired: too late')
  const digest = base.binding?.digest
  expect(server.asked.find(isSent)?.body).toEqual({
    invocations: [
      { id: 'inv_a', binding: digest },
      { id: 'inv_b', binding: digest },
    ],
  })
})

test('what a person settled is not looked for in quarantine', async () => {
  const item = call('inv_a', { status: 'in_doubt' })
  const settled = { ...item, status: 'succeeded', settled: { by: 'user:usr_x', at: soon(0), reason: 'seen there' } }
  const { server, user } = open([item], {
    'GET /api/v1/invocations': ({ path }) => ({ items: path.includes('status=in_doubt') ? [item] : [], next: null }),
    'GET /api/v1/quarantines': () => ({ items: [], next: null }),
    'POST /api/v1/invocations/inv_a/settle': () => ({ invocation: settled }),
  })
  await user.click(await screen.findByRole('button', { name: 'To settle' }))
  await user.type(await screen.findByLabelText(/how do you know/), 'seen there')
  await user.click(screen.getByRole('button', { name: 'It succeeded' }))
  await waitFor(() => expect(screen.queryByRole('button', { name: 'It succeeded' })).toBeNull())
  expect(server.asked.filter(asked => asked.path === '/api/v1/quarantines/inv_a')).toEqual([])
})

test('what is held is listed, though one of it cannot be read', async () => {
  const held = call('inv_a', { status: 'quarantined', params: { path: 'held.txt' } })
  const { user } = open([held], {
    'GET /api/v1/quarantines': () => ({ items: [{ invocation_id: 'inv_gone' }, { invocation_id: 'inv_a' }], next: null }),
  })
  await user.click(await screen.findByRole('button', { name: /^To settle/ }))
  expect(await screen.findByText('files.write_text · path: held.txt', { selector: 'li *' })).toBeTruthy()
  expect(rows()).toHaveLength(1)
})

test('an inbox with nothing in it offers the demo', async () => {
  open([])
  expect(await screen.findByTitle('Copy countersign demo')).toBeTruthy()
})

test('the palette goes to what is typed', async () => {
  const { user, router: own } = open([call('inv_a')])
  await screen.findByRole('article')
  await user.keyboard('{Control>}k{/Control}')
  await user.type(await screen.findByRole('combobox'), 'write_t{ArrowDown}{Enter}')
  await waitFor(() => expect(own.state.location.pathname).toBe('/actions'))
})

test('of 2,000 calls only those on the screen exist', async () => {
  const calls = Array.from({ length: 2_000 }, (_, at) => call(`inv_${String(at).padStart(4, '0')}`))
  open(calls)
  await waitFor(() => expect(document.title).toBe('(2000) Inbox · Countersign'))
  expect(rows().length).toBeGreaterThan(5)
  expect(rows().length).toBeLessThan(40)
  // What is not there is counted all the same.
  expect(['aria-posinset', 'aria-setsize'].map(name => rows()[0]?.getAttribute(name))).toEqual(['1', '2000'])
})

test('whoever may not answer is told so, and nothing is looked up for them', async () => {
  const { server, user } = open([call('inv_a'), call('inv_b')], {
    'GET /api/v1/whoami': () => ({ ...me, role: 'viewer', permissions: ['read'] }),
  })
  expect(await screen.findByText(/people with another role answer it/)).toBeTruthy()
  expect(screen.queryByRole('button', { name: /Approve once/ })).toBeNull()
  expect(server.asked.some(asked => asked.path.endsWith('/foresight'))).toBe(false)
  expect(await screen.findByText('Not looked up: that is done for people who may answer the call.')).toBeTruthy()
  expect(rows()).toHaveLength(2)
  expect(screen.queryByRole('checkbox')).toBeNull()
  await user.keyboard('x')
  expect(screen.queryByText('1 call selected')).toBeNull()
})

test('the first page is shown before the others are read', async () => {
  const ends = [soon(9), soon(8)]
  const pages = ends.map((expires_at, page) => [0, 1].map(at => call(`inv_${9 - 2 * page - at}`, { expires_at })))
  let release = () => {}
  const held = new Promise<void>(done => {
    release = done
  })
  const { server, user } = open(pages.flat(), {
    'GET /api/v1/invocations': async ({ path }) => {
      const query = new URL(path, 'http://localhost').searchParams
      if (query.get('status') !== 'pending') return { items: [], next: null }
      const at = Number(query.get('after') ?? 0)
      if (at > 0) await held
      return { items: pages[at], next: at < 1 ? String(at + 1) : null }
    },
  })
  await screen.findByText('+ would create')
  const names = () => screen.getAllByRole('checkbox').map(box => box.getAttribute('aria-label')?.split(' ').at(-1))
  expect(names()).toEqual(['inv_8', 'inv_9'])
  release()
  // They stand below, and nothing moves.
  await waitFor(() => expect(document.title).toBe('(4) Inbox · Countersign'))
  expect(names()).toEqual(['inv_8', 'inv_9', 'inv_6', 'inv_7'])
  expect(screen.queryByRole('button', { name: /new/ })).toBeNull()
  await user.click(await screen.findByRole('button', { name: 'show first what ends first' }))
  expect(names()).toEqual(['inv_6', 'inv_7', 'inv_8', 'inv_9'])
  expect(server.asked.some(({ path }) => /invocations\/inv_[67]$/.test(path))).toBe(false)
})

test('long words of the agent are cut until they are asked for', async () => {
  vi.spyOn(HTMLElement.prototype, 'scrollHeight', 'get').mockReturnValue(2_000)
  const { user } = open([call('inv_a', { reason: 'because '.repeat(200), claimed: { confidence: 0.9, rollback_plan: 'put it back' } })])
  const card = await screen.findByRole('article')
  const words = within(card).getByText(/because/).parentElement as HTMLElement
  expect(words.className).toContain('line-clamp')
  for (const text of ['Confidence given: 0.9', 'Rollback plan given: put it back']) expect(card.textContent).toContain(text)
  await user.click(within(card).getAllByRole('button', { name: 'Show all' })[0] as HTMLElement)
  expect(words.className).not.toContain('line-clamp')
})

test('the card says for whom, where, what its definition says of it, and under which rules', async () => {
  open([call('inv_a', { owner_id: 'usr_x' })], {
    'GET /api/v1/spaces': () => ({ items: [{ id: base.space_id, name: 'office', band: 'amber' }], next: null }),
  })
  const card = await screen.findByRole('article')
  for (const text of [
    'for Ada · space office (amber)',
    'Its definition says that it changes files.',
    'Decided under version 0 of the rules. Its time ends in',
  ])
    await waitFor(() => expect(card.textContent).toContain(text))
})

test('whoever approved is told so, and is not asked again', async () => {
  const item = call('inv_a')
  const counted = { ...item, approvals: [{ by: me.principal, at: soon(0) }] }
  const { server, user } = open([item], {
    'GET /api/v1/invocations/inv_a/foresight': () => ({ changes: { path: 'a.txt', change: 'would_create' }, approvals_needed: 2 }),
    'POST /api/v1/invocations/inv_a/approve': () => ({ invocation: counted, message: 'Action requires approval' }),
  })
  await screen.findByText('+ would create')
  await user.keyboard('a')
  expect(await screen.findByText('files.write_text: You approved; 1 more person must.')).toBeTruthy()
  expect(await screen.findByText('You approved; 1 more person must.')).toBeTruthy()
  expect(screen.queryByRole('button', { name: /^Approve once/ })).toBeNull()
  expect(screen.getByRole('button', { name: 'Deny' })).toBeTruthy()
  await user.keyboard('a')
  expect(server.asked.filter(isSent)).toHaveLength(1)
})

test('the first field of an edit has the focus, so that Enter does not cancel', async () => {
  const { user } = open([call('inv_a')])
  await screen.findByText('+ would create')
  await user.keyboard('e')
  const field = await screen.findByLabelText(/^path/)
  await waitFor(() => expect(document.activeElement).toBe(field))
})

test('a step is compared with the steps of other runs, and a grant for it is one for its automation', async () => {
  const automation = { principal: 'automation:aut_1', completed_at: soon(-1), status: 'succeeded' as const }
  const step = call('inv_z', { principal: 'automation:aut_1', trace_id: 'run_1', reason: 'step `tell` of the automation `Note`' })
  const earlier = [call('inv_b', { ...automation, session_id: 'ses_b' })]
  const { server, user } = open([step], {
    'GET /api/v1/invocations': ({ path }) => ({
      items: path.includes('automation=aut_1&action=') ? earlier : path.includes('pending') ? [step] : [],
      next: null,
    }),
    [`GET /api/v1/sessions/${base.session_id}`]: () => ({ id: base.session_id, title: 'Note', automation_id: 'aut_1' }),
  })
  expect(await screen.findByText('1 of 1 call of this action by this automation succeeded.')).toBeTruthy()
  expect(server.asked.find(({ path }) => path.includes('action='))?.path).not.toContain('session=')
  await screen.findByText('+ would create')
  await user.keyboard('g')
  const scope = within(await screen.findByRole('dialog')).getByLabelText('For')
  expect(scope).toHaveProperty('value', 'automation')
  expect(scope.textContent).toBe('this automationthis run alonethe org')
})

test('what was decided is read further back', async () => {
  const done = (id: string) => call(id, { status: 'succeeded' })
  const { user } = open([], {
    'GET /api/v1/invocations': ({ path }) => {
      if (path.includes('status=')) return { items: [], next: null }
      return path.includes('after=')
        ? { items: [done('inv_a')], next: null }
        : { items: Array.from({ length: 50 }, (_, at) => done(`inv_b${at}`)), next: 'inv_b49' }
    },
  })
  await user.click(await screen.findByRole('button', { name: 'Decided' }))
  const size = () => rows()[0]?.getAttribute('aria-setsize')
  await user.click(await screen.findByRole('button', { name: 'Older' }))
  await waitFor(() => expect(size()).toBe('51'))
  expect(screen.queryByRole('button', { name: 'Older' })).toBeNull()
})

test('what cannot be read says so, and can be read again', async () => {
  const away = new Refused(503, { code: 'store_unavailable', title: 'The store is away', detail: 'away', type: '', status: 503 })
  let isAway = true
  const item = call('inv_a', { decision: { ...base.decision, tightened_by: ['drift'] } })
  const { user } = open([item, call('inv_b', { expires_at: soon(9) })], {
    'GET /api/v1/whoami': () => (isAway ? away : me),
    [`GET /api/v1/reviews/${base.action}`]: () => away,
    [`GET /api/v1/sessions/${base.session_id}`]: () => away,
  })
  // Who answers, and what changed in the definition.
  await waitFor(() => expect(screen.getAllByRole('alert')).toHaveLength(2))
  expect(within(screen.getByRole('article')).getByRole('alert').textContent).toContain('The store is away')
  expect(screen.queryByRole('button', { name: /^Approve once/ })).toBeNull()
  isAway = false
  await user.click(screen.getAllByRole('button', { name: 'Try again' }).at(-1) as HTMLElement)
  expect(await screen.findByRole('button', { name: /^Approve once/ })).toBeTruthy()
  // For whom a rule would be written.
  await user.keyboard('j')
  await screen.findByText('+ would create')
  await waitFor(() => expect(screen.queryAllByRole('alert')).toHaveLength(0))
  await user.keyboard('{Shift>}a{/Shift}')
  const dialog = await screen.findByRole('dialog')
  expect((await within(dialog).findByRole('alert')).textContent).toContain('The store is away')
  expect(dialog.textContent).not.toContain('the whole org')
})

test('requests for grants are told of in the inbox and beside the page that has them', async () => {
  let items: unknown[] = [{ id: 'grt_1' }, { id: 'grt_2' }]
  const { server } = open([], { 'GET /api/v1/grants': () => ({ items, next: null }) })
  const link = await screen.findByRole('link', { name: '2 grant requests wait' })
  expect(link.getAttribute('href')).toBe('/policies/grants')
  expect(screen.getByRole('link', { name: 'Policies 2 waiting' })).toBeTruthy()
  expect(server.asked.some(asked => asked.path.startsWith('/api/v1/grants?state=requested'))).toBe(true)
  items = [{ id: 'grt_1' }]
  server.event('grant.refused', 'grt_2', 5)
  expect(await screen.findByRole('link', { name: '1 grant request waits' })).toBeTruthy()
})

test('the card names the grants that nearly covered the call, and asks nothing about a step of an automation', async () => {
  const near = { grant_id: 'grt_1', covers: 'files.write_text', missed: 'sum', because: 'the call takes 7, and 0 of 5 is spent' }
  const asked = call('inv_a')
  const step = call('inv_b', {
    principal: 'automation:aut_1',
    trace_id: 'run_1',
    reason: 'step `tell` of the automation `Note`',
    expires_at: soon(9),
  })
  const { server, user } = open([asked, step], { 'POST /api/v1/explain': () => ({ near_grants: [near] }) })
  const list = await screen.findByRole('list', { name: 'Grants that nearly covered it' })
  expect(list.textContent).toBe('grt_1 for files.write_text: the call takes 7, and 0 of 5 is spent')
  expect(within(list).getByRole('link').getAttribute('href')).toBe('/policies/grants/grt_1')
  const questions = () => server.asked.filter(each => each.path === '/api/v1/explain').map(each => each.body)
  expect(questions()).toEqual([{ action: asked.action, session_id: asked.session_id, params: asked.params }])
  await user.keyboard('j')
  expect(await screen.findByRole('link', { name: 'run run_1' })).toBeTruthy()
  await screen.findByRole('button', { name: /^Approve once/ })
  expect(screen.queryByRole('list', { name: 'Grants that nearly covered it' })).toBeNull()
  expect(questions()).toHaveLength(1)
})
