import { expect, test } from 'vitest'
import { leavesMessage, unreadOf } from './notifications'

const item = (id: string, invocation_id: string | null = 'inv_1') => ({
  id,
  space_id: 'spc_1',
  invocation_id,
  title: 'Hello',
  body: 'you',
  created_at: '2026-11-17T12:00:00Z',
})

test('what came after the last one that was seen is unread, and the server’s own words are counted apart', () => {
  const items = [item('ntf_3'), item('ntf_2', null), item('ntf_1', null)]
  expect(unreadOf({ items, next: null }, 'ntf_1')).toEqual({ count: '2', ofServer: 1, newest: 'ntf_3' })
  expect(unreadOf({ items, next: null }, 'ntf_3')).toEqual({ count: '', ofServer: 0, newest: 'ntf_3' })
  expect(unreadOf({ items: [], next: null }, '')).toEqual({ count: '', ofServer: 0, newest: '' })
  // There are more, but whether those are unread is known only where all of these are.
  expect(unreadOf({ items, next: 'x' }, '').count).toBe('3+')
  expect(unreadOf({ items, next: 'x' }, 'ntf_1').count).toBe('2')
})

test('the messages are counted again for what leaves one, and for nothing else', () => {
  const sent = { action: 'notify.send' }
  expect(leavesMessage({ type: 'invocation.succeeded', data: sent })).toBe(true)
  expect(leavesMessage({ type: 'automation.run.quarantined', data: {} })).toBe(true)
  expect(leavesMessage({ type: 'automation.trigger_disabled', data: {} })).toBe(true)
  expect(leavesMessage({ type: 'invocation.held', data: sent })).toBe(false)
  expect(leavesMessage({ type: 'invocation.succeeded', data: { action: 'files.list' } })).toBe(false)
})
