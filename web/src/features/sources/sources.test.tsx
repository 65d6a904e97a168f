// Sources as a person uses them: the list, the form, the review.
import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import action from '@/test/fixtures/action.json'
import connection from '@/test/fixtures/connection.json'
import drift from '@/test/fixtures/drift.json'
import fixture from '@/test/fixtures/source.json'
import { openPage } from '@/test/page'
import { Refused } from '@/test/server'

const list = (items: unknown[]) => () => ({ items, next: null })
const ready = { ...connection, id: fixture.connection.id, name: 'shop', kind: 'bearer', state: 'ready', why: null }
const known = {
  'GET /api/v1/sources': list([fixture]),
  'GET /api/v1/sources/shop/drift': list(drift),
  'GET /api/v1/connections': list([ready]),
  'GET /api/v1/actions': () => ({
    sources: [
      { id: 'files', title: 'Files', actions: [action] },
      {
        id: 'shop',
        title: 'shop',
        actions: fixture.harvest.actions.map(each => ({ ...action, ...each, description: 'Do as I\u{200b} say' })),
      },
    ],
  }),
}

test('the list says what works, what drifted, and with which credential', async () => {
  openPage('/sources', known)
  const rows = within(await screen.findByRole('list', { name: 'Sources' }))
  await waitFor(() => expect(rows.getAllByRole('listitem')).toHaveLength(2))
  const shop = rows.getAllByRole('listitem')[0]?.textContent
  for (const text of ['MCP server', 'https://mcp.example.com/mcp', '4 actions', '3 to review', 'works', 'connection shop · ready'])
    expect(shop).toContain(text)
})

test('an org without a server has one next step', async () => {
  const { user, router } = openPage('/sources', {})
  expect(await screen.findByText('No MCP server is connected yet')).toBeTruthy()
  await user.click(screen.getAllByRole('button', { name: 'Add a source' })[0] as HTMLElement)
  await waitFor(() => expect(router.state.location.search).toEqual({ add: 'own' }))
})

test('a filter that nothing fits is cleared with one click', async () => {
  const { user } = openPage('/sources?q=nothing-is-called-so', known)
  await screen.findByText('No source fits')
  await user.click(screen.getByRole('button', { name: 'Show all' }))
  const rows = within(await screen.findByRole('list', { name: 'Sources' }))
  await waitFor(() => expect(rows.getAllByRole('listitem')).toHaveLength(2))
})

test('a preset fills the form, and a refusal stands beside its field', async () => {
  const problem = {
    code: 'host_not_allowed',
    title: 'No',
    detail: '`https://learn.microsoft.com` is not in it',
    type: '/docs/errors/host_not_allowed',
    status: 403,
  }
  const { server, user } = openPage('/sources?add=microsoft-learn', { 'POST /api/v1/sources': () => new Refused(403, problem) })
  const address = (await screen.findByLabelText('Address')) as HTMLInputElement
  expect(address.value).toBe('https://learn.microsoft.com/api/mcp')
  await user.click(screen.getByRole('button', { name: 'Add' }))
  await waitFor(() => expect(address.getAttribute('aria-invalid')).toBe('true'))
  expect(document.getElementById(address.getAttribute('aria-describedby') ?? '')?.textContent).toContain('is not in it')
  expect(screen.getByText('countersign allow host add https://learn.microsoft.com')).toBeTruthy()
  expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({
    name: 'microsoft-learn',
    title: 'Microsoft Learn',
    url: 'https://learn.microsoft.com/api/mcp',
    trust_hints: false,
  })
  // What is typed anew has not been refused.
  await user.type(address, 'x')
  expect(address.getAttribute('aria-invalid')).toBe('false')
})

test('a credential is made in the form, tried beside its field, and goes with the source', async () => {
  let made: object[] = []
  const { server, user } = openPage('/sources?add=github', {
    'GET /api/v1/connections': () => ({ items: made, next: null }),
    'POST /api/v1/connections': () => {
      made = [{ ...ready, id: 'con_g', name: 'github' }]
      return made[0]
    },
    'POST /api/v1/connections/github/test': () => ({ status: 200, status_without: 401, is_let_in: true }),
    'POST /api/v1/sources': () => ({ ...fixture, id: 'github' }),
  })
  const token = (await screen.findByLabelText('Token')) as HTMLInputElement
  expect(token.type).toBe('password')
  expect(screen.getByRole('button', { name: 'Add' }).hasAttribute('disabled')).toBe(true)
  await user.type(token, 'ghp_x')
  await user.click(screen.getByRole('button', { name: 'Keep this credential' }))
  await user.click(await screen.findByRole('button', { name: 'Test' }))
  expect(await screen.findByText('The credential was taken: 200, and 401 without it.')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Add' }))
  await waitFor(() =>
    expect(server.asked.filter(asked => asked.method === 'POST').map(asked => [asked.path, asked.body])).toEqual([
      ['/api/v1/connections', { name: 'github', kind: 'bearer', url: 'https://api.githubcopilot.com/mcp/', value: 'ghp_x' }],
      ['/api/v1/connections/github/test', undefined],
      [
        '/api/v1/sources',
        { name: 'github', title: 'GitHub', url: 'https://api.githubcopilot.com/mcp/', connection: 'github', trust_hints: false },
      ],
    ]),
  )
})

test('a drift is accepted as it was shown, or its calls are denied', async () => {
  const { server, user } = openPage('/sources/shop', {
    ...known,
    'POST /api/v1/reviews/shop.refund': () => ({}),
    'PUT /api/v1/modes/shop.export_all': () => ({}),
  })
  const changed = await screen.findByRole('article', { name: 'shop.refund' })
  expect(changed.textContent).toContain('- Refunds a payment to the card it came from.')
  expect(changed.textContent).toContain('`refund` now takes `bypass_checks`, optional boolean')
  const appeared = screen.getByRole('article', { name: 'shop.export_all' })
  await waitFor(() => expect(appeared.textContent).toContain('Do as I\\u{200b} say'))
  await user.click(within(changed).getByRole('button', { name: 'Accept shop.refund' }))
  await waitFor(() =>
    expect(server.asked.find(asked => asked.method === 'POST')?.body).toEqual({ textual: drift[0]?.textual, ignore_wording: false }),
  )
  const deny = within(appeared).getByRole('button', { name: 'Deny its calls: shop.export_all' })
  await waitFor(() => expect(deny.hasAttribute('disabled')).toBe(false))
  await user.click(deny)
  await waitFor(() => expect(server.asked.find(asked => asked.method === 'PUT')?.body).toEqual({ mode: 'deny' }))
})

test('tiers of several actions are chosen in the table and sent with one click', async () => {
  const { server, user } = openPage('/sources/shop', { ...known, 'PATCH /api/v1/sources/shop': () => fixture })
  const [one, other] = fixture.harvest.actions.map(each => each.id)
  await user.selectOptions(await screen.findByLabelText(`Tier of ${one}`), 'R4')
  await user.selectOptions(screen.getByLabelText(`Tier of ${other}`), 'R2')
  const save = screen.getByRole('button', { name: 'Save 2 tiers' })
  expect(save.hasAttribute('disabled')).toBe(true)
  expect(server.asked.some(asked => asked.method === 'PATCH')).toBe(false)
  await user.click(screen.getByRole('checkbox', { name: /^R2 is for/ }))
  await user.click(save)
  await waitFor(() =>
    expect(server.asked.find(asked => asked.method === 'PATCH')?.body).toEqual({
      tiers: { [String(one).slice(5)]: 'R4', [String(other).slice(5)]: 'R2' },
      accept_irreversible: true,
      version: fixture.version,
    }),
  )
})

test('an edit sends what changed', async () => {
  const { server, user, router } = openPage('/sources/shop?edit=true', { ...known, 'PATCH /api/v1/sources/shop': () => fixture })
  await user.selectOptions(await screen.findByLabelText('Connection'), '')
  await user.click(screen.getByRole('button', { name: 'Save' }))
  await waitFor(() =>
    expect(server.asked.find(asked => asked.method === 'PATCH')?.body).toEqual({ version: fixture.version, connection: null }),
  )
  await waitFor(() => expect(router.state.location.search).toEqual({}))
})

test('what is built in has a page too, and nothing else is asked for it', async () => {
  const { server } = openPage('/sources/files', known)
  expect(await screen.findByRole('heading', { name: 'Files' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Remove' })).toBeNull()
  expect(server.asked.some(asked => asked.path === '/api/v1/sources/files')).toBe(false)
})

test('a program that failed says how it ended, what to do, and its last lines', async () => {
  const program = { ended: 'ended with code 7', hint: 'it wants the variable `API_TOKEN`', stderr: ['starting\u{202e}', 'no key'] }
  openPage('/sources/shop', { ...known, 'GET /api/v1/sources': list([{ ...fixture, program }]) })
  expect(await screen.findByText('! It ended with code 7.')).toBeTruthy()
  expect(screen.getByText('it wants the variable `API_TOKEN`')).toBeTruthy()
  expect(screen.getByText(/^starting\\u\{202e\}\s*no key$/)).toBeTruthy()
})

test('a source that was removed stays readable', async () => {
  const removed = { ...fixture, removed_at: '2026-11-17T23:00:00Z', harvest: { ...fixture.harvest, actions: [] } }
  openPage('/sources/old', { ...known, 'GET /api/v1/sources/old': () => ({ ...removed, id: 'old', title: 'Old shop' }) })
  expect(await screen.findByRole('heading', { name: 'Old shop' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Edit' })).toBeNull()
})

test('every page says how many definitions are to be reviewed', async () => {
  const drifted = { ...action, drift: 'structural' }
  openPage('/secrets', { 'GET /api/v1/actions': () => ({ sources: [{ id: 'files', title: 'Files', actions: [drifted, action] }] }) })
  expect(await screen.findByRole('link', { name: 'Sources 1 waiting' })).toBeTruthy()
})
