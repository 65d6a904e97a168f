import { webcrypto } from 'node:crypto'
import { screen, within } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import signed from '@/test/fixtures/receipt.json'
import { openPage } from '@/test/page'

const entry = (seq: number, more: object = {}) => ({
  seq,
  kind: 'receipt',
  id: `rcp_${seq}`,
  payload: {
    entry: { at: new Date().toISOString() },
    body: { action: 'files.write_text', status: 'succeeded', tier: 'R2', principal: 'user:usr_x', dry_run: false, ...more },
  },
  envelope: {},
})

test('receipts say what was a dry run, and what only was observed', async () => {
  const automated = { observed: true, principal: 'automation:aut_1' }
  openPage('/receipts', {
    'GET /api/v1/receipts': () => ({ items: [entry(3), entry(2, { dry_run: true }), entry(1, automated)], next: null }),
    'GET /api/v1/automations': () => ({ items: [{ id: 'aut_1', name: 'Morning note' }], next: null }),
  })
  await screen.findByText('observed')
  const rows = within(screen.getByRole('main')).getAllByRole('listitem')
  expect(await within(rows[0] as HTMLElement).findByText('Ada')).toBeTruthy()
  expect(await within(rows[2] as HTMLElement).findByText('Morning note')).toBeTruthy()
  expect(rows.map(row => ['dry run', 'observed'].filter(mark => within(row).queryByText(mark)))).toEqual([[], ['dry run'], ['observed']])
})

test('without a receipt there is one next step, and the command has the filter of the page', async () => {
  const { user } = openPage('/receipts?status=denied&since=7d', { 'GET /api/v1/receipts': () => ({ items: [], next: null }) })
  expect(await screen.findByText('No receipt fits')).toBeTruthy()
  expect(screen.getByTitle('Copy countersign receipt list --status denied --since 7d')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Show all' }))
  expect(await screen.findByText('There is no receipt yet')).toBeTruthy()
  expect(screen.getByTitle('Copy countersign receipt list')).toBeTruthy()
})

test('rows stay where they are: a new receipt waits behind a button', async () => {
  let items = [entry(1)]
  const { server, user } = openPage('/receipts', { 'GET /api/v1/receipts': () => ({ items, next: null }) })
  expect(await screen.findByText('#1')).toBeTruthy()
  items = [entry(2), entry(1)]
  const event = { specversion: '1.0', type: 'invocation.succeeded', subject: 'inv_2', receipt: 'rcp_2', data: {} }
  server.tell(`event: ${event.type}\ndata: ${JSON.stringify(event)}\nid: 9\n\n`)
  const news = await screen.findByRole('button', { name: /Something changed/ })
  expect(screen.queryByText('#2')).toBeNull()
  await user.click(news)
  expect(await screen.findByText('#2')).toBeTruthy()
  expect(screen.queryByRole('button', { name: /Something changed/ })).toBeNull()
})

const { proof, keys } = signed
const lying = { ...proof.entry, payload: { ...proof.entry.payload, body: { ...proof.entry.payload.body, status: 'failed' } } }

test.each([
  ['what was signed', proof.entry.id, proof.entry, []],
  ['another text than was signed', proof.entry.id, lying, ['✗ The text on this page is the text that was signed']],
  ['another receipt than was asked for', 'rcp_asked', proof.entry, ['✗ It is the receipt of this address']],
])('a page that shows %s says so', async (_, id, shown, broken) => {
  vi.stubGlobal('crypto', webcrypto)
  openPage(`/receipts/${id}`, {
    [`GET /api/v1/receipts/${id}`]: () => shown,
    [`GET /api/v1/receipts/${id}/proof`]: () => proof,
    'GET /api/v1/keys': () => ({ items: keys, next: null }),
  })
  expect(await screen.findByText(broken.length === 0 ? 'Verified' : 'Not verified')).toBeTruthy()
  expect(screen.queryAllByText(/^✗/).map(each => each.textContent)).toEqual(broken)
})

test.each([
  ['keys that were replaced meanwhile are read once more before a receipt is doubted', keys, 'Verified'],
  ['a receipt that no key of the log has signed is not verified', [], 'Not verified'],
])('%s', async (_, now, verdict) => {
  vi.stubGlobal('crypto', webcrypto)
  let isFirst = true
  const { server } = openPage(`/receipts/${proof.entry.id}`, {
    [`GET /api/v1/receipts/${proof.entry.id}`]: () => proof.entry,
    [`GET /api/v1/receipts/${proof.entry.id}/proof`]: () => proof,
    'GET /api/v1/keys': () => {
      const items = isFirst ? [] : now
      isFirst = false
      return { items, next: null }
    },
  })
  expect(await screen.findByText(verdict)).toBeTruthy()
  expect(server.asked.filter(asked => asked.path === '/api/v1/keys')).toHaveLength(2)
})
