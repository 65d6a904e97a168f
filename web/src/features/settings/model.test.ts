import { expect, test } from 'vitest'
import { type ChannelForm, channelRequest, endOf, missing, only, tells, wholeNumber } from './model'
import type { Channel, Token } from './queries'

const NOW = Date.parse('2026-11-17T12:00:00Z')
const token: Token = { id: 'tok_1', kind: 'user', name: 'laptop', scopes: [], created_at: '2026-11-01T00:00:00Z' }
const form: ChannelForm = { name: ' pager ', kind: 'webhook', texts: {}, tiers: [], attendance: '', space: '', after: '' }

test('a token says why it no longer works', () => {
  expect(endOf(token, NOW)).toBeUndefined()
  expect(endOf({ ...token, expires_at: '2026-11-17T12:00:01Z' }, NOW)).toBeUndefined()
  expect(endOf({ ...token, expires_at: '2026-11-17T12:00:00Z' }, NOW)).toBe('expired')
  expect(endOf({ ...token, lost: 'session_ended' }, NOW)).toBe('session ended')
  expect(endOf({ ...token, lost: 'session_ended', revoked_at: '2026-11-17T11:00:00Z' }, NOW)).toBe('revoked')
})

test('a form of a channel becomes the request of its kind', () => {
  expect(missing(form)).toEqual(['Address', 'Secret that signs'])
  const webhook = { ...form, texts: { url: 'https://a.example/x', secret: 'key', channel: 'C1' }, tiers: ['R3' as const], after: '10m' }
  expect(missing(webhook)).toEqual([])
  expect(channelRequest(webhook)).toEqual({
    name: 'pager',
    kind: 'webhook',
    settings: { url: 'https://a.example/x', secret: 'key' },
    tiers: ['R3'],
    attendance: undefined,
    space: undefined,
    after: '10m',
  })
  const slack = channelRequest({
    ...form,
    kind: 'slack',
    texts: { channel: 'C1', token: 't', signing_secret: 's', users: 'U1=robin\n U2 = sam\n' },
  })
  expect(slack.settings).toEqual({ channel: 'C1', token: 't', signing_secret: 's', users: { U1: 'robin', U2: 'sam' } })
  const mail = channelRequest({
    ...form,
    kind: 'email',
    texts: { to: 'a@example.com\nb@example.com', from: 'c@example.com', server: 'smtp://m' },
  })
  expect(mail.settings).toEqual({ to: ['a@example.com', 'b@example.com'], from: 'c@example.com', server: 'smtp://m' })
})

test('a channel says whom it tells, and of what', () => {
  const channel = { kind: 'email', settings: { to: ['a@x', 'b@x'] }, tiers: [], bands: [], after_seconds: 0 } as unknown as Channel
  expect(tells(channel)).toBe('a@x, b@x')
  expect(only(channel, [])).toBe('all calls')
  expect(
    only({ ...channel, tiers: ['R4'], bands: ['red'], attendance: 'unattended', space: 'spc_1' }, [{ id: 'spc_1', name: 'shop' }]),
  ).toBe('R4, red, unattended, space shop')
})

test('a limit is a whole number or nothing', () => {
  expect(wholeNumber('')).toBeNull()
  expect(wholeNumber(' 10 000 ')).toBe(10_000)
  for (const text of ['-1', '1.5', 'many', '9999999999999999']) expect(wholeNumber(text)).toBeUndefined()
})
