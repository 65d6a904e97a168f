import { expect, test } from 'vitest'
import type { Invocation } from '@/api/types'
import pending from '@/test/fixtures/pending.json'
import {
  alike,
  amounts,
  cannotEdit,
  cascade,
  closedBecause,
  EMPTY,
  gone,
  isOpen,
  matches,
  mayAlways,
  mayHaveChanged,
  mustToo,
  onlyOnce,
  range,
  type Step,
  statusOf,
  step,
  stepOf,
  successorOf,
  titleOf,
  undoMs,
} from './model'

const base = pending as unknown as Invocation
const now = Date.parse('2026-11-17T12:00:00Z')
const call = (id: string, more: Partial<Invocation> = {}): Invocation => ({ ...base, id, expires_at: '2026-11-17T12:05:00Z', ...more })
const after = (...steps: Step[]) => steps.reduce(step, EMPTY)

test('nothing moves under the cursor', () => {
  const [a, b] = [call('inv_a', { expires_at: '2026-11-17T12:02:00Z' }), call('inv_b')]
  let shelf = after({ kind: 'listed', items: [b, a], isWhole: true })
  expect(shelf.shown).toEqual(['inv_a', 'inv_b'])
  // One arrives that ends before all others, one ends, one is put off: the rows stay.
  const c = call('inv_c', { expires_at: '2026-11-17T12:01:00Z' })
  for (const next of [
    { kind: 'changed', item: c },
    { kind: 'changed', item: { ...a, status: 'denied' } },
    { kind: 'listed', items: [b, c, call('inv_d')], isWhole: true },
    { kind: 'snoozed', id: 'inv_b', until: '2026-11-17T13:00:00Z' },
  ] as Step[])
    shelf = step(shelf, next)
  expect(shelf.shown).toEqual(['inv_a', 'inv_b'])
  expect(shelf.waiting).toEqual(['inv_c', 'inv_d'])
  expect(gone(shelf, now)).toEqual({ ended: 1, putOff: 1 })
  // Until the person asks.
  shelf = step(shelf, { kind: 'revealed' })
  expect(shelf.shown).toEqual(['inv_c', 'inv_d'])
  expect(shelf.waiting).toEqual([])
  expect(gone(shelf, now)).toEqual({ ended: 0, putOff: 0 })
})

test('what arrives in an empty inbox is shown, and what ended elsewhere is not new', () => {
  expect(after({ kind: 'changed', item: call('inv_a') }).shown).toEqual(['inv_a'])
  expect(after({ kind: 'changed', item: call('inv_a', { status: 'denied' }) })).toBe(EMPTY)
  const titled = after(
    { kind: 'listed', items: [call('inv_a', { session_title: 'night' })], isWhole: true },
    { kind: 'changed', item: call('inv_a', { status: 'expired' }) },
  )
  expect(titled.known.get('inv_a')).toMatchObject({ status: 'expired', session_title: 'night' })
})

test('a list that was read before an answer does not take it back', () => {
  const shelf = after(
    { kind: 'listed', items: [call('inv_a'), call('inv_b')], isWhole: true },
    { kind: 'changed', item: call('inv_a', { status: 'denied' }) },
  )
  const later = step(shelf, { kind: 'listed', items: [call('inv_a'), call('inv_b', { clock_stopped: true })], isWhole: true })
  expect([later.known.get('inv_a')?.status, later.known.get('inv_b')?.clock_stopped]).toEqual(['denied', true])
})

test('what is read after the first page stands below it, and in its order once that is asked for', () => {
  const [a, b, c] = ['05', '04', '03'].map((minute, at) => call(`inv_${at}`, { expires_at: `2026-11-17T12:${minute}:00Z` }))
  const read = (...pages: (Invocation | undefined)[][]) =>
    after(...pages.map((page, at): Step => ({ kind: 'listed', items: page.filter(item => !!item), isWhole: at === pages.length - 1 })))
  const shelf = read([a], [a, b, c])
  expect([shelf.shown, shelf.waiting, shelf.isMixed]).toEqual([['inv_0', 'inv_2', 'inv_1'], [], true])
  const sorted = step(shelf, { kind: 'revealed' })
  expect([sorted.shown, sorted.isMixed]).toEqual([['inv_2', 'inv_1', 'inv_0'], false])
  expect(read([c], [c, b, a])).toMatchObject({ shown: ['inv_2', 'inv_1', 'inv_0'], isMixed: false })
  // What comes later is news.
  expect(step(read([a]), { kind: 'listed', items: [a as Invocation, b as Invocation], isWhole: true }).waiting).toEqual(['inv_1'])
})

test('2,000 calls are taken in at once', () => {
  const items = Array.from({ length: 2_000 }, (_, at) => call(`inv_${String(at).padStart(4, '0')}`))
  expect(after({ kind: 'listed', items, isWhole: true }).shown).toHaveLength(2_000)
})

test('whatever ended says why', () => {
  const answer = { by: 'user:ada', at: '2026-11-17T11:57:00Z', reason: 'no\u{202e}' }
  for (const [item, expected] of [
    [call('a'), undefined],
    [call('a', { expires_at: '2026-11-17T11:00:00Z' }), 'Its time to be answered is over; nothing was done.'],
    [call('a', { void: { code: 'x', message: 'the policy changed' } }), 'Void: the policy changed'],
    [call('a', { status: 'denied', denied_by: 'binding', error: { code: 'x', message: 'the mode changed' } }), 'Void: the mode changed'],
    [call('a', { status: 'denied', denied_by: 'person', answer }), 'Denied by Ada 3 min ago: “no\\u{202e}”.'],
    [
      call('a', { status: 'succeeded', answer: { by: 'user:bob', at: '2026-11-17T12:00:00Z' } }),
      'Approved by user:bob just now, and it succeeded.',
    ],
    [call('a', { status: 'failed', error: { code: 'x', message: 'gone' } }), 'It failed: gone'],
    [call('a', { status: 'expired' }), 'Nobody answered in time; nothing was done.'],
    [
      call('a', { status: 'succeeded', settled: { by: 'user:ada', at: answer.at, reason: 'it is there' } }),
      'Settled as succeeded by Ada: “it is there”.',
    ],
    [call('a', { status: 'failed', settled: { by: 'user:bob', at: answer.at } }), 'Settled as failed by user:bob.'],
  ] as const)
    expect(closedBecause(item, now, principal => (principal === 'user:ada' ? 'Ada' : principal))).toBe(expected)
  expect(isOpen(call('a', { expires_at: null }), now)).toBe(true)
})

test('whoever approved is told how many more must', () => {
  const approved = (count: number) => call('a', { approvals: Array.from({ length: count }, () => ({ by: 'user:ada', at: '' })) })
  expect(mustToo(approved(1), 2)).toBe('You approved; 1 more person must.')
  expect(mustToo(approved(1), 3)).toBe('You approved; 2 more people must.')
  // Not known, or more than before because it was edited.
  for (const needed of [undefined, 1]) expect(mustToo(approved(1), needed)).toBe('You approved; another person must.')
})

test('what can no longer be answered is not called pending', () => {
  const changed = { code: 'x', message: 'the policy changed' } as Invocation['void']
  for (const [more, expected] of [
    [{}, 'pending'],
    [{ void: changed }, 'void'],
    [{ void: changed, expires_at: '2026-11-17T11:00:00Z' }, 'void'],
    [{ expires_at: '2026-11-17T11:00:00Z' }, 'expired'],
    [{ status: 'denied' }, 'denied'],
  ] as const)
    expect(statusOf(call('a', more), now)).toBe(expected)
})

test('only numbers can be added up', () => {
  expect(amounts({ amount: 12.5, 'a/b~c': 1, count: '3', items: [1], no: null })).toEqual(['/amount', '/a~1b~0c'])
})

test('the decision is one line', () => {
  const decision = {
    ...base.decision,
    source: 'org_default' as const,
    base: 'allow' as const,
    mode: 'require_approval' as const,
    tightened: ['drift'],
  }
  expect(cascade(decision)).toEqual(['org: allow', 'drift', 'require_approval'])
})

test('what cannot be allowed for longer says why', () => {
  expect(onlyOnce(call('a'), undefined)).toBeUndefined()
  expect(onlyOnce(call('a', { class: 'danger' }), undefined)).toContain('R4')
  expect(onlyOnce(call('a', { decision: { ...base.decision, tightened_by: ['drift'] } }), undefined)).toContain('review')
  expect(mayAlways(call('a'), undefined, ['approve'])).toContain('manage_policy')
  expect(mayAlways(call('a'), undefined, ['approve', 'manage_policy'])).toBeUndefined()
})

test('params that are not whole are not edited', () => {
  expect(cannotEdit({ a: 1 })).toBeUndefined()
  expect(cannotEdit({ a: { b: 'Bearer [redacted]' } })).toBeDefined()
  expect(cannotEdit({ a: 'x', _truncated: true })).toBeDefined()
})

test('the title is ours, and one line', () => {
  expect(titleOf({ action: 'files.write_text', params: { list: [], path: 'a\n\u{202e}b', n: 3, more: 'x' } })).toBe(
    'files.write_text · path: a … · n: 3',
  )
  const title = (params: Record<string, unknown>) => titleOf({ action: 'files.write_text', params })
  expect(title({ path: 'a.md', text: '# Monday\n\n3 refunds\n' })).toBe('files.write_text · path: a.md · text: # Monday …')
  expect(title({ text: '\n\n  late\r\nmore' })).toBe('files.write_text · text: late …')
  expect(title({ text: 'one line\n' })).toBe('files.write_text · text: one line')
  expect(title({ text: 'a\u202eb' })).toBe('files.write_text · text: a\\u{202e}b')
})

test('a filter looks at all that is shown', () => {
  expect(matches(call('a', { reason: 'weekly notes' }), 'WEEKLY write')).toBe(true)
  expect(matches(call('a'), 'weekly nothing')).toBe(false)
})

test('a range is the same from both ends', () => {
  expect(range(['a', 'b', 'c', 'd'], 'b', 'd')).toEqual(['b', 'c', 'd'])
  expect(range(['a', 'b', 'c', 'd'], 'd', 'b')).toEqual(['b', 'c', 'd'])
  expect(range(['a'], 'x', 'a')).toEqual(['a'])
})

test('a denial never waits until the call has ended', () => {
  expect(undoMs(call('a'), now)).toBe(5_000)
  expect(undoMs(call('a', { expires_at: '2026-11-17T12:00:04Z' }), now)).toBe(2_000)
  expect(undoMs(call('a', { expires_at: '2026-11-17T12:00:01Z' }), now)).toBe(0)
})

test('alike is the same action with the same params, whatever their values', () => {
  const [a, b] = [call('a', { params: { path: 'x', text: '1' } }), call('b', { params: { text: '2', path: 'y' } })]
  const others = [call('c', { params: { path: 'x' } }), call('d', { action: 'files.delete', params: a.params })]
  expect(alike([a, b, ...others], a)).toEqual(['a', 'b'])
})

test('a call may have changed something if it ran and does more than read', () => {
  for (const [name, tier, expected] of [
    ['succeeded', 'R2', true],
    ['failed', 'R3', true],
    ['reverted', 'R2', true],
    ['doubted', 'R4', true],
    ['succeeded', 'R0', false],
    ['failed', 'R1', false],
    ['held', 'R2', false],
    ['approved', 'R2', false],
    ['denied', 'R2', false],
  ] as const)
    expect([name, tier, mayHaveChanged({ type: `invocation.${name}`, data: { tier } })]).toEqual([name, tier, expected])
  expect(mayHaveChanged({ type: 'batch.succeeded', data: {} })).toBe(false)
})

test('what is void leads to the same call asked anew', () => {
  const gone = call('inv_b', { void: { code: 'policy_mismatch', message: 'the policy changed' } as Invocation['void'] })
  const again = call('inv_c')
  const next = (known: Invocation[]) => successorOf(gone, known, now)?.id
  expect(next([gone, again])).toBe('inv_c')
  expect(next([gone])).toBeUndefined()
  // An earlier one, one that ended, and one with other params are not it.
  expect(next([call('inv_a')])).toBeUndefined()
  expect(next([{ ...again, status: 'denied' }])).toBeUndefined()
  expect(next([{ ...again, digests: { ...again.digests, params: 'other' } }])).toBeUndefined()
  expect(next([{ ...again, session_id: 'ses_other' }])).toBeUndefined()
  expect(successorOf(call('inv_b'), [again], now)).toBeUndefined()
})

test('a step of an automation names its run, and nobody else passes for one', () => {
  const held = { principal: 'automation:aut_1', trace_id: 'run_1', reason: 'step `tell` of the automation `Morning note`' }
  expect(stepOf(held)).toEqual({ run: 'run_1', step: 'tell' })
  expect(stepOf({ ...held, reason: 'edited' })).toEqual({ run: 'run_1', step: undefined })
  expect(stepOf({ ...held, principal: 'agent:ses_1' })).toBeUndefined()
  expect(stepOf({ ...held, trace_id: '4bf92f35' })).toBeUndefined()
})
