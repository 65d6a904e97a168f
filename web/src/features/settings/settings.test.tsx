import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'
import { me, Refused } from '@/test/server'

const list = (items: unknown[]) => ({ items, next: null })
const at = new Date().toISOString()
const users = [
  { id: 'usr_x', name: 'ada', role: 'owner', max_band: 'black', created_at: at },
  { id: 'usr_y', name: 'robin', role: 'viewer', max_band: 'black', created_at: at },
]
const all = { ...me, permissions: ['read', 'invoke', 'approve', 'manage_policy', 'manage_identity'] }
const secret = { name: 'secret', label: 'Secret that signs', help: '', example: '', shape: 'secret', is_required: true }
const answers: Parameters<typeof openPage>[1] = {
  'GET /api/v1/whoami': () => all,
  'GET /api/v1/users': () => list(users),
  'GET /api/v1/channel-kinds': () => list([{ kind: 'webhook', title: 'a signed webhook', settings: [secret] }]),
  'GET /api/v1/tokens': () => list([{ id: 'tok_1', kind: 'user', name: 'laptop', user_id: 'usr_x', scopes: [], created_at: at }]),
}

test('an invitation is shown once, and not closed by accident', async () => {
  const { server, user } = openPage('/settings', {
    ...answers,
    'POST /api/v1/users': () => ({
      id: 'usr_z',
      user: { ...users[1], id: 'usr_z', name: 'sam' },
      invitation: { invitation: 'cs_invitation_1' },
    }),
  })
  await user.click(await screen.findByRole('button', { name: 'Invite somebody' }))
  await user.type(screen.getByLabelText(/^Name/), 'sam')
  await user.click(screen.getByRole('button', { name: 'Invite' }))
  const dialog = await screen.findByRole('dialog', { name: 'The invitation of sam' })
  expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({ name: 'sam', role: 'approver' })
  expect(dialog.textContent).toContain('cs_invitation_1')
  expect(dialog.textContent).toContain(`${location.origin}/login/invitation/cs_invitation_1`)
  expect(within(dialog).getByRole('button', { name: 'Done' }).hasAttribute('disabled')).toBe(true)
  await user.click(within(dialog).getByRole('checkbox'))
  await user.click(within(dialog).getByRole('button', { name: 'Done' }))
  expect(screen.queryByText('cs_invitation_1')).toBeNull()
})

test('nobody changes or disables themselves, and only what changed is sent', async () => {
  const { server, user } = openPage('/settings', { ...answers, 'PATCH /api/v1/users/usr_y': () => users[1] })
  await screen.findByText('(you)')
  expect(screen.queryByRole('button', { name: 'Change ada' })).toBeNull()
  await user.click(await screen.findByRole('button', { name: 'Change robin' }))
  await user.selectOptions(screen.getByLabelText('Role'), 'approver')
  await user.click(screen.getByRole('button', { name: 'Change' }))
  await waitFor(() => expect(server.asked.find(asked => asked.method === 'PATCH')?.body).toEqual({ role: 'approver' }))
})

test('a service gets what its maker holds, and never the right to approve', async () => {
  const { server, user } = openPage('/settings?tab=tokens', {
    ...answers,
    'POST /api/v1/tokens': () => ({ id: 'tok_2', token: 'cs_service_1' }),
  })
  await user.click(await screen.findByRole('button', { name: 'Create a token' }))
  await user.type(screen.getByLabelText('What it is for'), 'ci')
  await user.click(screen.getByLabelText(/a service/))
  const dialog = screen.getByRole('dialog')
  expect(within(dialog).queryByLabelText(/approve/)).toBeNull()
  expect(within(dialog).queryByLabelText(/create_session/)).toBeNull()
  await user.click(within(dialog).getByLabelText(/read everything/))
  await user.click(within(dialog).getByRole('button', { name: 'Create' }))
  expect((await screen.findByRole('dialog', { name: 'The token ci' })).textContent).toContain('cs_service_1')
  expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({
    name: 'ci',
    scopes: ['invoke', 'read'],
    expires_in_days: 90,
  })
})

test('a person and a token have an address, and so has what ended', async () => {
  const { user, router } = openPage('/settings?q=usr_y', {
    ...answers,
    'GET /api/v1/tokens': () =>
      list([
        { id: 'tok_1', kind: 'user', name: 'laptop', user_id: 'usr_x', scopes: [], created_at: at },
        { id: 'tok_2', kind: 'user', name: 'old laptop', user_id: 'usr_x', scopes: [], created_at: at, revoked_at: at },
      ]),
  })
  expect(await screen.findByRole('link', { name: 'robin' })).toBeTruthy()
  expect(within(screen.getByRole('main')).queryByRole('link', { name: 'ada' })).toBeNull()
  await router.navigate({ to: '/settings', search: { tab: 'tokens' } })
  expect(await screen.findByRole('link', { name: 'laptop' })).toBeTruthy()
  await user.click(screen.getByRole('checkbox', { name: 'Also 1 token that ended' }))
  await user.click(await screen.findByRole('link', { name: 'old laptop' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ tab: 'tokens', ended: true, q: 'tok_2' }))
  await waitFor(() => expect(screen.queryByRole('link', { name: 'laptop' })).toBeNull())
  await router.navigate({ to: '/settings', search: { tab: 'tokens', q: 'nothing-is-called-so' } })
  await user.click(await screen.findByRole('button', { name: 'Show all' }))
  expect(await screen.findByRole('link', { name: 'laptop' })).toBeTruthy()
})

test('a drifted package shows the diff of its code', async () => {
  const action = { id: 'notes.append', tier: 'R2', title: 'Append', profile: 'default', drift: 'structural' }
  openPage('/settings?tab=packages&package=notes', {
    ...answers,
    'GET /api/v1/packages/notes': () => ({
      name: 'notes',
      actions: [action],
      findings: [],
      code_allowed: true,
      runs_at_once: 2,
      files: [],
    }),
    'GET /api/v1/reviews/notes.append': () => ({
      action: 'notes.append',
      drift: 'structural',
      ignores_wording: false,
      changes: [],
      code: [{ path: 'execute.js', change: 'changed', diff: '+steal()\n', added_lines: 1, removed_lines: 0, diff_truncated: false }],
    }),
  })
  expect(await screen.findByText('+steal()')).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Accept this definition' })).toBeTruthy()
})

test('what is kept is set whole, and nothing means the default', async () => {
  const { server, user } = openPage('/settings?tab=retention', {
    ...answers,
    'GET /api/v1/retention': () => ({ events_days: 30 }),
    'PUT /api/v1/retention': () => ({ receipts_days: 180 }),
  })
  await user.type(await screen.findByLabelText(/Ended calls/), '180')
  await user.clear(screen.getByLabelText(/^Events/))
  await user.click(screen.getByRole('button', { name: 'Set' }))
  await waitFor(() =>
    expect(server.asked.find(asked => asked.method === 'PUT')?.body).toEqual({
      receipts_days: 180,
      events_days: null,
      snapshots_days: null,
      snapshot_bytes_max: null,
    }),
  )
})

const allowed = {
  list: 'hosts',
  entry: 'mcp.example.com',
  fixed: false,
  command: null,
  used_by: [],
  version: 4,
  set_by: 'user:usr_x',
  set_at: at,
}

test('an operator sees where each host comes from, adds one, and removes one that is not fixed', async () => {
  const { server, user } = openPage('/settings?tab=allowed', {
    ...answers,
    'GET /api/v1/allowed/hosts': () => list([{ ...allowed, entry: 'fixed.example.com', fixed: true, set_by: null, set_at: null }, allowed]),
    'GET /api/v1/allowed/networks': () => list([]),
    'GET /api/v1/allowed/commands': () =>
      list([
        { ...allowed, list: 'commands', entry: 'abc', command: { command: ['node', 'x.js'], hosts: ['a.example.com'] }, used_by: ['kit'] },
      ]),
    'POST /api/v1/allowed/hosts': () => ({ ...allowed, entry: 'new.example.com' }),
    'DELETE /api/v1/allowed/hosts/mcp.example.com': () => allowed,
  })
  const hosts = within(await screen.findByRole('list', { name: 'Hosts' }))
  expect((await hosts.findByText('fixed.example.com')).closest('li')?.textContent).toContain('fixed in the settings of the server')
  expect(hosts.queryByRole('button', { name: 'Remove fixed.example.com' })).toBeNull()
  const commands = within(screen.getByRole('list', { name: 'Commands' }))
  expect((await commands.findByText('node x.js')).closest('li')?.textContent).toContain('may reach a.example.com · runs for kit')
  await user.type(screen.getByLabelText('Host'), 'new.example.com')
  await user.click(screen.getByRole('button', { name: 'Allow this host' }))
  await waitFor(() => expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({ entry: 'new.example.com' }))
  await user.click(hosts.getByRole('button', { name: 'Remove mcp.example.com' }))
  await user.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Remove' }))
  await waitFor(() => expect(server.asked.some(asked => asked.method === 'DELETE')).toBe(true))
})

test('whoever is no operator is told so', async () => {
  const problem = { code: 'forbidden', title: 'No', detail: 'only an operator does this', type: '/docs/errors/forbidden', status: 403 }
  openPage('/settings?tab=allowed', { ...answers, 'GET /api/v1/allowed/hosts': () => new Refused(403, problem) })
  expect(await screen.findByText('Operators alone see and change this')).toBeTruthy()
})

test('a notice that a channel did not take is delivered once more, or dropped after a question', async () => {
  const channel = {
    id: 'chn_1',
    name: 'pager',
    kind: 'webhook',
    settings: {},
    tiers: [],
    bands: [],
    after_seconds: 0,
    dead: 1,
    created_at: at,
  }
  const letter = {
    id: 'dlv_1',
    channel: 'chn_1',
    invocation_id: 'inv_1',
    moment: 'pending',
    state: 'dead',
    attempts: 3,
    problem: 'it answered\u{202e} 410',
    created_at: at,
    ended_at: at,
  }
  const { server, user } = openPage('/settings?tab=channels', {
    ...answers,
    'GET /api/v1/channels': () => list([channel]),
    'GET /api/v1/deliveries': () => list([letter]),
    'POST /api/v1/channels/chn_1/retry': () => ({ retried: 1 }),
    'POST /api/v1/channels/chn_1/drop': () => ({ dropped: 1 }),
  })
  await user.click(await screen.findByRole('button', { name: 'Dead letters of pager' }))
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

test('whoever may not list tokens is told so, and creates one for themselves', async () => {
  const { server } = openPage('/settings?tab=tokens', { ...answers, 'GET /api/v1/whoami': () => ({ ...me, permissions: ['read'] }) })
  expect(await screen.findByText(/^Which tokens there are is seen with the permission manage_identity/)).toBeTruthy()
  expect(screen.getByRole('button', { name: 'Create a token' })).toBeTruthy()
  expect(screen.queryByRole('alert')).toBeNull()
  expect(server.asked.some(asked => asked.path.startsWith('/api/v1/tokens'))).toBe(false)
})

test('a channel takes one of the secrets there are', async () => {
  const { user } = openPage('/settings?tab=channels', {
    ...answers,
    'GET /api/v1/channels': () => list([]),
    'GET /api/v1/secrets': () => list([{ id: 'sec_1', name: 'hook-key' }]),
  })
  await user.click((await screen.findAllByRole('button', { name: /Add a channel/ }))[0] as HTMLElement)
  const dialog = await screen.findByRole('dialog')
  await within(dialog).findByRole('option', { name: 'hook-key' })
  await user.selectOptions(within(dialog).getByLabelText('Secret that signs'), 'hook-key')
  expect(within(dialog).getByRole('button', { name: 'New secret' })).toBeTruthy()
})
