import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import type { Entry, Invocation } from '@/api/types'
import { openPage } from '@/test/page'
import { base } from '@/test/server'
import { parts, since, timeline } from './model'

const START = '2026-11-17T12:00:00.000Z'
const later = (ms: number) => new Date(Date.parse(START) + ms).toISOString()
const ended: Invocation = {
  ...base,
  id: 'inv_a',
  status: 'succeeded',
  created_at: START,
  started_at: later(60_010),
  completed_at: later(60_030),
  duration_ms: 30,
  waited_ms: 60_000,
  approvals: [{ by: 'user:usr_x', at: later(60_005), reason: 'fine', mode: 'once' }],
  checks: [{ name: 'read_back', ok: true }],
}
const intent = { seq: 1, kind: 'intent', id: 'i', payload: { entry: { at: later(60_010) }, body: { attempt: 1 } }, envelope: {} } as Entry

test('the stages of a call stand in the order in which it went through them', () => {
  expect(timeline(ended, [intent]).map(stage => stage.name)).toEqual([
    'asked',
    ...base.gates.filter(gate => gate.verdict !== 'not_applicable').map(gate => `gate ${gate.gate}`),
    'decided',
    'waited',
    'approved',
    'began',
    'verified',
    'succeeded',
  ])
  const denied: Invocation = {
    ...base,
    status: 'denied',
    denied_by: 'person',
    answer: { by: 'user:usr_x', at: later(5), reason: 'no' },
    completed_at: later(6),
  }
  expect(timeline(denied, []).find(stage => stage.name === 'denied')?.text).toBe('by user:usr_x: “no”')
  expect(timeline(denied, [], () => 'Ada').find(stage => stage.name === 'denied')?.text).toBe('by Ada: “no”')
  expect(timeline({ ...base, status: 'pending' }, []).at(-1)?.name).toBe('waits')
})

test('the time of a call is told apart', () => {
  expect(parts(ended)).toEqual([
    { name: 'decided and queued', ms: 10 },
    { name: 'waited for people', ms: 60_000 },
    { name: 'ran', ms: 20 },
  ])
  expect(parts(base)).toEqual([])
  expect(since(START, later(12))).toBe('+12 ms')
  expect(since(START, later(14_523))).toBe('+14.523 s')
})

test('calls are listed by status, and what changes meanwhile waits behind a button', async () => {
  const { server, user, router } = openPage('/invocations', {
    'GET /api/v1/invocations': () => ({ items: [{ ...ended, params: { path: 'a\u{202e}b' } }], next: null, total: 1 }),
  })
  expect(await screen.findByText(/path: a\\u\{202e\}b/)).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'failed' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ status: 'failed' }))
  await waitFor(() => expect(server.asked.some(asked => asked.path.includes('status=failed'))).toBe(true))
  server.event('invocation.failed', 'inv_b', 5)
  expect(await screen.findByRole('button', { name: /Something changed/ })).toBeTruthy()
})

test('one call shows its way, its params and where else to look', async () => {
  openPage('/invocations/inv_a', {
    'GET /api/v1/invocations/inv_a': () => ({ invocation: ended, result: { bytes: 3 } }),
    'GET /api/v1/invocations/inv_a/entries': () => ({ items: [intent], next: null }),
  })
  expect(await screen.findByText('waited')).toBeTruthy()
  expect(await screen.findByText('attempt 1')).toBeTruthy()
  expect(screen.getByText(/decided and queued 10 ms · waited for people 1 min · ran 20 ms/)).toBeTruthy()
  expect(screen.getByRole('link', { name: 'Its events' }).getAttribute('href')).toBe('/events?subject=inv_a')
})

test('a dry run and an observed call are marked in the lists', async () => {
  const calls = [ended, { ...ended, id: 'inv_b', dry_run: true, principal: 'user:usr_x' }, { ...ended, id: 'inv_c', observed: 'mode' }]
  openPage('/invocations', { 'GET /api/v1/invocations': ({ path }) => ({ items: path.includes('status=') ? [] : calls, next: null }) })
  await screen.findByText('observed')
  const rows = within(screen.getByRole('main')).getAllByRole('listitem')
  expect(await within(rows[1] as HTMLElement).findByText('Ada')).toBeTruthy()
  expect(rows.map(row => ['dry run', 'observed'].filter(mark => within(row).queryByText(mark)))).toEqual([[], ['dry run'], ['observed']])
})

test('a call that waits names the grants that nearly covered it', async () => {
  const near = { grant_id: 'grt_1', covers: 'files.write_text', missed: 'expired', because: 'it has expired' }
  openPage('/invocations/inv_a', {
    'GET /api/v1/invocations/inv_a': () => ({ invocation: { ...base, id: 'inv_a' } }),
    'POST /api/v1/explain': () => ({ near_grants: [near] }),
  })
  const list = await screen.findByRole('list', { name: 'Grants that nearly covered it' })
  expect(list.textContent).toBe('grt_1 for files.write_text: it has expired')
})

test('a step of an automation leads to its run, and nobody’s words are put in the mouth of an agent', async () => {
  const step = { ...base, id: 'inv_a', principal: 'automation:aut_1', trace_id: 'run_1', reason: 'step `tell` of the automation `Note`' }
  openPage('/invocations/inv_a', {
    'GET /api/v1/invocations/inv_a': () => ({ invocation: step }),
    [`GET /api/v1/sessions/${base.session_id}`]: () => ({ id: base.session_id, title: 'Note' }),
  })
  expect((await screen.findByRole('link', { name: 'run run_1' })).getAttribute('href')).toBe('/runs/run_1?step=tell')
  expect((await screen.findByRole('link', { name: 'Note' })).getAttribute('href')).toBe('/automations/aut_1')
  expect(screen.queryByText(/The agent’s own words/)).toBeNull()
})
