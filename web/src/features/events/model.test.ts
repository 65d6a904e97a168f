import { expect, test } from 'vitest'
import type { Schemas } from '@/api/types'
import type { OrgEvent } from '@/lib/live'
import { fits, grouped, isRepeated, joined, summaryOf } from './model'

const event = (id: string, type: string, data: Record<string, unknown> = {}): OrgEvent => ({
  specversion: '1.0',
  id,
  source: '/orgs/org_1',
  type,
  subject: 'inv_1',
  time: '2026-11-17T12:00:00Z',
  cursor: id.slice('evt_'.length),
  data,
})

test('a filter is a whole name, or its first word', () => {
  const held = event('evt_1', 'invocation.held')
  for (const type of [undefined, 'invocation', 'invocation.held']) expect(fits(held, { type })).toBe(true)
  for (const type of ['invoc', 'invocation.', 'invocation.hel']) expect(fits(held, { type })).toBe(false)
  expect(fits(held, { subject: 'inv_1' })).toBe(true)
  expect(fits(held, { subject: 'inv_' })).toBe(false)
})

test('an event says in one line what happened', () => {
  expect(summaryOf(event('evt_1', 'invocation.held', { summary: 'files.list pending' }))).toBe('files.list pending')
  expect(summaryOf(event('evt_1', 'mode.changed', { by: 'user:u', action: 'a.b', mode: 'deny' }))).toBe('by user:u · mode deny · a.b')
  expect(summaryOf(event('evt_1', 'channel.added', { by: 'user:u', change: { name: 'pager', rule: 'channel_set' } }))).toBe(
    'by user:u · name pager',
  )
  expect(summaryOf(event('evt_1', 'mode.changed', { by: 'user:u', mode: 'deny' }), () => 'Ada')).toBe('by Ada · mode deny')
  expect(summaryOf(event('evt_1', 'x.y', { name: 7 }))).toBe('')
  // A subject that a person can read is said; the same is said once.
  const drifted = { ...event('evt_1', 'action.drifted', { change: { rule: 'drifted' } }), subject: 'forge.merge' }
  expect(summaryOf(drifted)).toBe('forge.merge')
  const set = { ...event('evt_1', 'secret.set', { by: 'user:u', change: { name: 'mail' } }), subject: 'mail' }
  expect(summaryOf(set)).toBe('mail · by user:u')
})

test('what was told and read stands there once', () => {
  expect(joined([event('evt_3', 'c'), event('evt_2', 'b')], [event('evt_2', 'b'), event('evt_1', 'a')]).map(each => each.id)).toEqual([
    'evt_3',
    'evt_2',
    'evt_1',
  ])
  expect(isRepeated(event('evt_1.1', 'action_completed'))).toBe(true)
  // Whoever publishes an event chooses its id, and the server its cursor.
  const theirs = { ...event('evt_4', 'drive.file_added'), id: 'evt_1.1' }
  expect(isRepeated(theirs)).toBe(false)
  expect(joined([{ ...event('evt_4', 'drive.file_added'), id: 'evt_3' }], [event('evt_3', 'c')]).length).toBe(2)
})

test('dead letters with the same problem stand together', () => {
  const letter = (id: string, problem: string | null) => ({ id, problem }) as Schemas['DeliveryView']
  const groups = grouped([letter('1', 'gone'), letter('2', null), letter('3', 'gone')])
  expect(groups.map(group => [group.problem, group.letters.length])).toEqual([
    ['gone', 2],
    ['not known', 1],
  ])
})
