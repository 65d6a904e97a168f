import { expect, test } from 'vitest'
import { buckets, type Call, DECISIONS, decisionOf, startOf, stepsDone, topActions, totals, waits } from './model'

const NOW = Date.parse('2026-11-17T12:00:00Z')
const call = (more: Partial<Call> = {}): Call => ({
  action: 'files.write_text',
  status: 'succeeded',
  mode: 'allow',
  created_at: new Date(NOW - 60_000).toISOString(),
  isAnswered: false,
  isByAgent: true,
  ...more,
})

test('a call counts by what the rules made of it, not by what a person said', () => {
  expect(decisionOf(call())).toBe('allowed')
  expect(decisionOf(call({ mode: 'require_approval' }))).toBe('asked a person')
  expect(decisionOf(call({ mode: 'require_approval', status: 'denied', denied_by: 'person' }))).toBe('asked a person')
  expect(decisionOf(call({ mode: 'require_approval', grant_id: 'gra_1' }))).toBe('allowed')
  expect(decisionOf(call({ mode: 'require_approval', observed: 'mode' }))).toBe('allowed')
  expect(decisionOf(call({ mode: 'deny', status: 'denied', denied_by: 'policy' }))).toBe('denied')
  expect(decisionOf(call({ status: 'quarantined' }))).toBe('denied')
})

test('every call falls into the stretch of time it was made in', () => {
  const old = call({ created_at: new Date(startOf('24h', NOW)).toISOString(), mode: 'require_approval' })
  const older = call({ created_at: new Date(startOf('24h', NOW) - 1).toISOString() })
  const later = call({ created_at: new Date(NOW + 500).toISOString() })
  const all = buckets([call(), old, older, later], '24h', NOW, DECISIONS, decisionOf)
  expect(all).toHaveLength(24)
  expect(all[0]?.counts).toEqual([0, 1, 0])
  expect(all[23]?.counts).toEqual([2, 0, 0])
  expect(totals(all, DECISIONS)).toEqual([2, 1, 0])
})

test('waits are of calls that a person answered', () => {
  expect(waits([call({ waited_ms: 5_000 })])).toBeUndefined()
  const answered = [500, 10_000, 59_000, 3_600_000, 9_999_999_999].map(waited_ms => call({ waited_ms, isAnswered: true }))
  const found = waits(answered)
  expect(found?.median).toBe(59_000)
  // Of two, neither is the middle.
  expect(waits(answered.slice(0, 2))?.median).toBe(5_250)
  expect(found?.p95).toBe(9_999_999_999)
  expect(found?.bars.map(bar => bar.count)).toEqual([1, 2, 0, 0, 1, 1])
})

test('the actions that are called most stand first', () => {
  const calls = [call({ action: 'b' }), call({ action: 'a' }), call({ action: 'c' }), call({ action: 'c', status: 'in_doubt' })]
  expect(topActions(calls, 2)).toEqual([
    { action: 'c', count: 2, failed: 1 },
    { action: 'a', count: 1, failed: 0 },
  ])
})

test('a step is done by what there is, not by what was pressed', () => {
  const nothing = { calls: [], sessions: [], sources: [], users: [], channels: [], me: 'user:usr_1', isNotified: false }
  expect(Object.values(stepsDone(nothing))).toEqual([false, false, false, false])
  const own = {
    ...nothing,
    calls: [call({ isByAgent: false })],
    sessions: [{ title: 'cli' }, { title: 'cli@laptop' }, { title: 'Tried in the web UI' }],
    users: [
      { id: 'usr_1', role: 'owner' as const, disabled_at: null },
      { id: 'usr_2', role: 'member' as const, disabled_at: null },
      { id: 'usr_3', role: 'approver' as const, disabled_at: '2026-11-17T12:00:00Z' },
    ],
    sources: [{ removed_at: '2026-11-17T12:00:00Z' }],
  }
  expect(Object.values(stepsDone(own))).toEqual([false, false, false, false])
  const done = {
    ...own,
    sessions: [{ title: 'claude-code' }],
    sources: [{ removed_at: null }],
    users: [{ id: 'usr_2', role: 'approver' as const }],
    channels: [{ removed_at: null }],
  }
  expect(Object.values(stepsDone(done))).toEqual([true, true, true, true])
})
