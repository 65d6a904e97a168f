import { expect, test } from 'vitest'
import { type ChannelForm, channelRequest, endOf, missing, only, tells, wholeNumber } from './model'
import type { Channel, ChannelKind, Token } from './queries'

const NOW = Date.parse('2026-11-17T12:00:00Z')
const token: Token = { id: 'tok_1', kind: 'user', name: 'laptop', scopes: [], created_at: '2026-11-01T00:00:00Z' }
const setting = { label: '', help: '', example: '', is_required: true }
const webhook: ChannelKind = {
  kind: 'webhook',
  title: 'a signed webhook',
  settings: [
    { ...setting, name: 'url', label: 'Address', shape: 'text' },
    { ...setting, name: 'secret', label: 'Secret that signs', shape: 'secret' },
  ],
}
const slack: ChannelKind = {
  kind: 'slack',
  title: 'a message in Slack',
  settings: [
    { ...setting, name: 'channel', shape: 'text' },
    { ...setting, name: 'users', shape: 'people', is_required: false },
  ],
}
const email: ChannelKind = {
  kind: 'email',
  title: 'mail',
  settings: [
    { ...setting, name: 'to', label: 'To', shape: 'recipients' },
    { ...setting, name: 'server', label: 'Mail server', shape: 'text', is_required: false },
    { ...setting, name: 'username', shape: 'text', is_required: false, needs: 'server' },
  ],
}
const form: ChannelForm = { name: ' pager ', texts: {}, tiers: [], attendance: '', space: '', after: '' }

test('a token says why it no longer works', () => {
  expect(endOf(token, NOW)).toBeUndefined()
  expect(endOf({ ...token, expires_at: '2026-11-17T12:00:01Z' }, NOW)).toBeUndefined()
  expect(endOf({ ...token, expires_at: '2026-11-17T12:00:00Z' }, NOW)).toBe('expired')
  expect(endOf({ ...token, lost: 'session_ended' }, NOW)).toBe('session ended')
  expect(endOf({ ...token, lost: 'session_ended', revoked_at: '2026-11-17T11:00:00Z' }, NOW)).toBe('revoked')
})

test('a form of a channel becomes the request of its kind', () => {
  expect(missing(form, webhook)).toEqual(['Address', 'Secret that signs'])
  const filled = { ...form, texts: { url: 'https://a.example/x', secret: 'key', channel: 'C1' }, tiers: ['R3' as const], after: '10m' }
  expect(missing(filled, webhook)).toEqual([])
  expect(channelRequest(filled, webhook)).toEqual({
    name: 'pager',
    kind: 'webhook',
    settings: { url: 'https://a.example/x', secret: 'key' },
    tiers: ['R3'],
    attendance: undefined,
    space: undefined,
    after: '10m',
  })
  const people = channelRequest({ ...form, texts: { channel: 'C1', users: 'U1=robin\n U2 = sam\n' } }, slack)
  expect(people.settings).toEqual({ channel: 'C1', users: { U1: 'robin', U2: 'sam' } })
  const mail = { ...form, texts: { to: 'a@example.com\nb@example.com', username: 'us' } }
  expect(missing(mail, email)).toEqual(['Mail server'])
  expect(channelRequest(mail, email).settings).toEqual({ to: ['a@example.com', 'b@example.com'], username: 'us' })
})

test('a channel says whom it tells, and of what', () => {
  const channel = { kind: 'email', settings: { to: ['a@x', 'b@x'] }, tiers: [], bands: [], after_seconds: 0 } as unknown as Channel
  expect(tells(channel, [webhook, email])).toBe('a@x, b@x')
  expect(tells(channel, [])).toBe('')
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
