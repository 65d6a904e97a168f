// The pages of the rules as a person uses them, with a server of a few lines.
import { QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRouter, RouterProvider } from '@tanstack/react-router'
import { render, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { beforeEach, expect, test, vi } from 'vitest'
import type { Schemas } from '@/api/types'
import { ToastProvider } from '@/components/toasts'
import { ShelfProvider } from '@/features/inbox/shelf'
import { EventsProvider } from '@/lib/events'
import { FreshQueryClient } from '@/lib/query-client'
import { router } from '@/router'
import { base, me, Refused, serve } from '@/test/server'

const soon = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
const page = (items: unknown[]) => () => ({ items, next: null })
const session = {
  id: 'ses_1',
  space_id: 'spc_1',
  created_by: 'user:usr_x',
  title: 'Nightly triage',
  attendance: 'unattended',
  created_at: soon(-60),
}
const space = {
  id: 'spc_1',
  name: 'production',
  band: 'amber',
  self_approval: 'allowed',
  quorum: {},
  redaction: { kinds: null, regions: [] },
  members: null,
  created_at: soon(-60),
}
const grant: Partial<Schemas['GrantView']> = {
  id: 'grt_1',
  state: 'active',
  covers: 'files.write_text',
  scope: 'session:ses_1',
  session_title: 'Nightly triage',
  calls_max: 5,
  calls_used: 2,
  expires_at: soon(90),
  lifetime_seconds: 5400,
  created_at: soon(-9),
}
const asked = { ...grant, id: 'grt_2', state: 'requested', covers: 'files.delete', calls_used: 0, reason: 'my\u{202e} drafts' }
const IN_FORCE = {
  version: 7,
  policies: { rbac: '', abac: 'forbid (principal, action, resource);', consent: '', space: '' },
  set_by: 'user:usr_x',
}

function open(path: string, more: Parameters<typeof serve>[0] = {}) {
  const server = serve({
    'GET /api/v1/modes': page([
      { scope: 'org', action: 'files.write_text', mode: 'deny', locked: true, version: 3, set_by: 'user:usr_x', set_at: soon(-5) },
    ]),
    'GET /api/v1/modes/versions': page([]),
    'GET /api/v1/policies': () => IN_FORCE,
    'GET /api/v1/policies/versions': page([IN_FORCE]),
    'GET /api/v1/sessions': page([session]),
    'GET /api/v1/sessions/ses_1': () => session,
    'GET /api/v1/spaces': page([space]),
    'GET /api/v1/spaces/spc_1': () => space,
    'GET /api/v1/users': page([{ id: 'usr_x', name: 'ada', role: 'owner' }]),
    'GET /api/v1/crossings': page([]),
    'GET /api/v1/grants': ({ path: at }) => page(at.includes('state=requested') ? [asked] : [grant, asked])(),
    'GET /api/v1/invocations': page([]),
    ...more,
  })
  const client = new FreshQueryClient({ defaultOptions: { queries: { retry: false } } })
  const own = createRouter({ routeTree: router.routeTree, history: createMemoryHistory({ initialEntries: [path] }) })
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
  const sent = (method: string) => server.asked.filter(each => each.method === method)
  return { server, sent, user: userEvent.setup(), router: own }
}

beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: true, addEventListener() {}, removeEventListener() {} }))
})

test('a mode shows what it comes to, and is tried on recorded calls before it is written', async () => {
  const { user, sent } = open('/policies', {
    'POST /api/v1/policies/what-if': () => ({
      replayed: 12,
      skipped: 0,
      truncated: false,
      changes: [
        {
          invocation_id: 'inv_1',
          action: 'files.write_text',
          principal: 'agent:ses_1',
          created_at: soon(-9),
          before: 'denied',
          after: 'runs',
          because: '',
        },
      ],
    }),
    'PUT /api/v1/modes/files.write_text': () => ({ action: 'files.write_text', mode: 'allow', version: 8, voided: 2 }),
  })
  const row = await screen.findByRole('button', { name: /files\.write_text/ })
  expect(row.textContent).toContain('deny')
  expect(row.textContent).toContain('asks a person')
  await waitFor(() => expect(row.textContent).toContain('by ada'))
  await user.click(row)
  const dialog = await screen.findByRole('dialog')
  await user.click(within(dialog).getByRole('radio', { name: 'allow' }))
  await waitFor(() => expect(dialog.textContent).toContain('org: files.write_text → allow, locked'))
  await waitFor(() => expect(dialog.textContent).toContain('Of 12 calls in the last 7d, 1 loosened.'))
  await user.click(within(dialog).getByRole('button', { name: 'Set' }))
  await screen.findByText(/2 pending calls ended/)
  expect(sent('PUT')[0]?.body).toEqual({ mode: 'allow', locked: true })
})

test('a policy is checked as it is typed, and its errors lead to their place', async () => {
  const { user, sent } = open('/policies/cedar?set=abac', {
    'POST /api/v1/policies/check': ({ body }) =>
      (body as Schemas['PoliciesFile']).abac.includes('nope')
        ? new Refused(422, {
            code: 'invalid_policy',
            title: '',
            type: '',
            status: 422,
            detail: '1 problem',
            errors: [{ pointer: '/abac', message: 'unexpected token `nope`', line: 2, column: 3 }],
          })
        : { version: 7, policies: 2 },
    'POST /api/v1/policies/what-if': () => ({ replayed: 3, skipped: 0, truncated: false, changes: [] }),
    'PUT /api/v1/policies': () => ({ version: 8, policies: 2, voided: null }),
  })
  const text = (await screen.findByLabelText('Policies of the set abac')) as HTMLTextAreaElement
  await user.click(text)
  await user.keyboard('\n  nope')
  const error = await screen.findByRole('button', { name: /abac 2:3/ }, { timeout: 3_000 })
  expect(screen.getByRole('button', { name: /Review & save/ })).toHaveProperty('disabled', true)
  await user.click(error)
  expect(text.selectionStart).toBe(text.value.indexOf('nope'))
  await user.clear(text)
  await user.type(text, 'permit;')
  expect(await screen.findByText(/2 policies, all valid/, {}, { timeout: 3_000 })).toBeTruthy()
  await user.click(screen.getByRole('button', { name: /Review & save/ }))
  const dialog = await screen.findByRole('dialog')
  expect(dialog.textContent).toContain('+permit;')
  await waitFor(() => expect(dialog.textContent).toContain('none would have fared otherwise'))
  await user.click(within(dialog).getByRole('button', { name: 'Save' }))
  await screen.findByText('Version 8 of the rules is in force.')
  expect(sent('PUT')[0]?.body).toEqual({ rbac: '', abac: 'permit;', consent: '', space: '' })
})

test('policies that somebody else set meanwhile are not overwritten unseen', async () => {
  const draft = {
    base: { ...IN_FORCE, version: 5, policies: { ...IN_FORCE.policies, abac: 'older' } },
    texts: { ...IN_FORCE.policies, abac: 'mine' },
  }
  sessionStorage.setItem('policy-draft', JSON.stringify(draft))
  open('/policies/cedar', { 'POST /api/v1/policies/check': () => ({ version: 7, policies: 1 }) })
  expect(await screen.findByText(/The policies changed after you began this draft/)).toBeTruthy()
})

test('the simulator counts what would be held, denied and loosened', async () => {
  const change = (id: string, before: string, after: string) => ({
    invocation_id: id,
    action: 'files.write_text',
    principal: 'agent:ses_1',
    created_at: soon(-9),
    before,
    after,
    because: 'the mode is `deny`',
  })
  const { user, sent } = open('/policies/what-if?modes=files.write_text:deny&last=30d', {
    'POST /api/v1/policies/what-if': () => ({
      replayed: 40,
      skipped: 1,
      truncated: false,
      changes: [change('inv_1', 'runs', 'denied'), change('inv_2', 'asks', 'denied'), change('inv_3', 'asks', 'runs')],
    }),
  })
  const denied = await screen.findByRole('button', { name: /2 newly denied/ })
  const modes = [{ action: 'files.write_text', mode: 'deny' }]
  expect(sent('POST')[0]?.body).toEqual({ policies: null, modes, last: '30d', action: null })
  expect(screen.getAllByText('the mode is `deny`')).toHaveLength(3)
  await user.click(denied)
  await waitFor(() => expect(screen.getAllByText('the mode is `deny`')).toHaveLength(2))
})

test('explain names the gates and what decides', async () => {
  const { sent } = open('/policies/explain?action=files.write_text&session=ses_1', {
    'POST /api/v1/explain': () => ({
      action: 'files.write_text',
      tier: 'R2',
      session_id: 'ses_1',
      space_id: 'spc_1',
      principal: 'agent:ses_1',
      would: 'asks',
      because: 'the policy `abac.night` asks',
      decision: { mode: 'require_approval', base: 'allow', source: 'org_default', tightened: ['gate abac'] },
      gates: [{ gate: 'abac', verdict: 'needs_approval', determining: ['abac.night'] }],
      drift: 'none',
      near_grants: [{ grant_id: 'grt_1', covers: 'files.write_text', missed: 'params', because: 'the params do not meet its condition' }],
      approvals_needed: 1,
      errors: [],
    }),
  })
  const answer = await screen.findByRole('region', { name: 'The answer' })
  for (const text of [
    'asks a person',
    'the policy `abac.night` asks',
    'org: allow → gate abac → require_approval',
    'needs approval',
    '1 person',
    'grt_1 for files.write_text: the params do not meet its condition',
  ])
    expect(answer.textContent).toContain(text)
  expect(sent('POST')[0]?.body).toEqual({ action: 'files.write_text', session_id: 'ses_1', params: null })
})

test('a wide request is approved only after all that it gives was shown', async () => {
  const wide = { ...asked, scope: 'org', calls_max: null, covers: 'files.write_text', requested_by: 'agent:ses_1' }
  const { user, sent } = open('/policies/grants', {
    'GET /api/v1/grants': page([wide]),
    'POST /api/v1/grants/grt_2/approve': () => ({ ...wide, state: 'active' }),
  })
  const requests = await screen.findByRole('region', { name: 'Requests of agents' })
  expect(requests.textContent).toContain('Asked for by Nightly triage')
  await user.click(within(requests).getByRole('button', { name: 'Approve…' }))
  const dialog = await screen.findByRole('dialog', { name: 'Give the grant for files.write_text' })
  for (const text of ['everybody in the org', 'any number of calls', 'not bounded', '1 h from now', 'Nightly triage'])
    expect(dialog.textContent).toContain(text)
  await waitFor(() => expect(dialog.textContent).toContain('R2'))
  await user.click(within(dialog).getByRole('button', { name: 'Cancel' }))
  expect(sent('POST')).toHaveLength(0)
  await user.click(within(requests).getByRole('button', { name: 'Approve…' }))
  await user.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Give it' }))
  await screen.findByText('The grant for files.write_text is given.')
  expect(sent('POST')).toHaveLength(1)
})

test('grants show their budget; a request is answered, with the agent’s words marked', async () => {
  let isAnswered = false
  const { user, sent, server } = open('/policies/grants', {
    'GET /api/v1/grants': ({ path }) => page(path.includes('state=requested') ? (isAnswered ? [] : [asked]) : [grant])(),
    'POST /api/v1/grants/grt_2/approve': () => ({ ...asked, state: 'active' }),
    'DELETE /api/v1/grants/grt_1': () => ({ ...grant, state: 'revoked' }),
  })
  const list = await screen.findByRole('list', { name: 'Grants' })
  await waitFor(() => expect(list.textContent).toContain('2 of 5 calls'))
  expect(within(list).getByRole('progressbar', { name: 'calls' })).toHaveProperty('value', 2)
  const requests = screen.getByRole('region', { name: 'Requests of agents' })
  expect(requests.textContent).toContain('The agent’s own words: “my\\u{202e} drafts”')
  await user.click(within(requests).getByRole('button', { name: 'Approve…' }))
  expect(sent('POST')).toHaveLength(0)
  await user.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Give it' }))
  await screen.findByText('The grant for files.delete is given.')
  // The row stays where it was, in grey, so that a second click meets no other.
  isAnswered = true
  server.event('grant.given', 'grt_2', 7)
  await within(requests).findByText('It no longer waits.')
  await user.click(screen.getByRole('button', { name: /Show what changed/ }))
  await waitFor(() => expect(screen.queryByRole('region', { name: 'Requests of agents' })).toBeNull())
  await user.click(within(list).getByRole('button', { name: /Revoke/ }))
  await user.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Revoke' }))
  await waitFor(() => expect(sent('DELETE')).toHaveLength(1))
})

test('a grant is given with all its bounds', async () => {
  const { user, sent } = open('/policies/grants', {
    'POST /api/v1/grants': () => grant,
    'GET /api/v1/grants/grt_1': () => grant,
  })
  await user.click(await screen.findByRole('button', { name: /Give a grant/ }))
  const dialog = await screen.findByRole('dialog')
  await user.type(within(dialog).getByLabelText(/^What it covers/), 'files.write_text')
  await user.selectOptions(within(dialog).getByRole('combobox', { name: 'For the calls of' }), 'org')
  await user.click(within(dialog).getByText(/A sum, and a condition/))
  await user.type(within(dialog).getByLabelText('Sum at most'), '500')
  await user.type(within(dialog).getByLabelText('Of the param'), '/amount')
  expect(dialog.textContent).toContain(
    'countersign grant give files.write_text --org --calls 5 --sum-max 500 --of /amount --per 24h --expires 2h',
  )
  await user.click(within(dialog).getByRole('button', { name: 'Give it' }))
  await waitFor(() =>
    expect(sent('POST')[0]?.body).toMatchObject({
      covers: 'files.write_text',
      scope: 'org',
      calls_max: 5,
      sum_max: { of: '/amount', max: '500', per: '24h' },
    }),
  )
})

test('a grant with a bound that cannot be read says so, and offers neither a promise nor a command', async () => {
  const { user } = open('/policies/grants')
  await user.click(await screen.findByRole('button', { name: /Give a grant/ }))
  const dialog = await screen.findByRole('dialog')
  await user.type(within(dialog).getByLabelText(/^What it covers/), 'files.write_text')
  await user.selectOptions(within(dialog).getByRole('combobox', { name: 'For the calls of' }), 'org')
  const isOffered = () => ['run without asking', 'countersign grant give'].map(words => dialog.textContent?.includes(words))
  expect(isOffered()).toEqual([true, true])
  await user.type(within(dialog).getByLabelText('Calls'), ' or so')
  expect(within(dialog).getByRole('alert').textContent).toContain('A whole number from 1 up')
  expect(isOffered()).toEqual([false, false])
  await user.clear(within(dialog).getByLabelText('Calls'))
  await user.click(within(dialog).getByText(/A sum, and a condition/))
  await user.type(within(dialog).getByLabelText('Sum at most'), 'much')
  const said = within(dialog).getAllByRole('alert')
  expect(said.map(each => each.textContent)).toEqual([
    'A number above 0 such as 500 or 12.50, with six decimals at most.',
    'The place of a param, such as /amount.',
  ])
  expect(isOffered()).toEqual([false, false])
})

test('a band asks before it is changed', async () => {
  const { user, sent } = open('/policies/spaces/spc_1', { 'PATCH /api/v1/spaces/spc_1': () => ({ ...space, band: 'red' }) })
  await user.click(await screen.findByRole('radio', { name: /red/ }))
  expect(sent('PATCH')).toHaveLength(0)
  const dialog = await screen.findByRole('dialog')
  expect(dialog.textContent).toContain('all but R0 needs approval')
  await user.click(within(dialog).getByRole('button', { name: 'Make it red' }))
  await waitFor(() => expect(sent('PATCH')[0]?.body).toEqual({ band: 'red' }))
})

test('the report suggests rules that can be set from it', async () => {
  const { user, sent } = open('/policies/observe', {
    'GET /api/v1/spaces/spc_1/observed': () => ({
      space_id: 'spc_1',
      observes: true,
      since: soon(-1_440),
      until: soon(0),
      asked: 9,
      still_asked: 1,
      rows: [{ action: 'files.write_text', tier: 'R2', session_id: 'ses_1', session_title: 'Nightly triage', observed: 'mode', calls: 9 }],
      cut: false,
      modes: [{ action: 'files.write_text', tier: 'R2', mode: 'allow', calls: 8 }],
      grants: [],
    }),
    'POST /api/v1/policies/what-if': () => ({ replayed: 9, skipped: 0, truncated: false, changes: [] }),
    'PUT /api/v1/modes/files.write_text': () => ({ action: 'files.write_text', mode: 'allow', version: 8 }),
  })
  await screen.findByText('9 questions')
  await user.click(screen.getByRole('button', { name: /Set it/ }))
  await user.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Set it' }))
  await waitFor(() => expect(sent('PUT')[0]?.body).toEqual({ mode: 'allow', locked: false }))
})

test('a kill switch needs a reason and a second look', async () => {
  const { user, sent } = open('/policies/kill-switch?scope=source:files', {
    'POST /api/v1/kill-switches/on': () => ({ scope: 'source:files', on: true, clocks: 2 }),
  })
  const stop = await screen.findByRole('button', { name: /Stop it/ })
  expect(stop).toHaveProperty('disabled', true)
  await user.type(screen.getByLabelText(/^Why/), 'odd requests')
  await user.click(stop)
  await user.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Stop it now' }))
  await waitFor(() => expect(sent('POST')[0]?.body).toEqual({ scope: 'source:files', stop: 'everything', reason: 'odd requests' }))
})

test('everything pending of a session is denied one by one, and each says what became of it', async () => {
  const calls = ['inv_a', 'inv_b'].map(id => ({ ...base, id, session_id: 'ses_1', status: 'pending' }))
  const { user, sent } = open('/policies/sessions/ses_1', {
    'GET /api/v1/invocations': page(calls),
    'POST /api/v1/invocations/inv_a/deny': () => ({ invocation: calls[0] }),
    'POST /api/v1/invocations/inv_b/deny': () =>
      new Refused(409, { code: 'already_ended', title: '', detail: 'user:bob approved it', type: '', status: 409 }),
  })
  await user.click(await screen.findByRole('button', { name: /Cancel everything pending/ }))
  const dialog = await screen.findByRole('dialog')
  await user.type(within(dialog).getByLabelText(/^Why/), 'not today')
  await user.click(within(dialog).getByRole('button', { name: 'Deny 2' }))
  await waitFor(() => expect(dialog.textContent).toContain('user:bob approved it'))
  expect(sent('POST').map(each => each.body)).toEqual([{ reason: 'not today' }, { reason: 'not today' }])
})

test('whoever may not change rules reads them', async () => {
  const readOnly = { 'GET /api/v1/whoami': () => ({ ...me, role: 'viewer', permissions: ['read'] }) }
  const { user } = open('/policies', readOnly)
  await user.click(await screen.findByRole('button', { name: /files\.write_text/ }))
  const dialog = await screen.findByRole('dialog')
  expect(within(dialog).queryByRole('button', { name: 'Set' })).toBeNull()
  expect(dialog.textContent).toContain('manage_policy')
})
