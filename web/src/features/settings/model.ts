// What the settings say of tokens and channels, and what their forms send. Pure.
import type { Schemas, Tier } from '@/api/types'
import type { Channel, Retention, Role, Token } from './queries'

export const ROLES: readonly Role[] = ['viewer', 'member', 'approver', 'admin', 'owner']
export const MAY: Record<Role, string> = {
  viewer: 'reads',
  member: 'reads, and invokes',
  approver: 'answers calls too',
  admin: 'manages everything, but owners',
  owner: 'manages everything',
}

/** Why a token no longer works; undefined while it does. */
export function endOf(token: Token, now: number): string | undefined {
  if (token.revoked_at) return 'revoked'
  if (token.lost) return token.lost.replaceAll('_', ' ')
  return token.expires_at && Date.parse(token.expires_at) <= now ? 'expired' : undefined
}

/** Whom or what a channel tells. */
export function tells(channel: Channel): string {
  const settings = (channel.settings ?? {}) as Record<string, unknown>
  const said = { webhook: settings.url, slack: settings.channel, email: settings.to }[channel.kind]
  return Array.isArray(said) ? said.join(', ') : String(said ?? '')
}

/** Which calls a channel is told of, in words. */
export function only(channel: Channel, spaces: readonly { id: string; name: string }[]): string {
  const words = [
    ...channel.tiers,
    ...channel.bands,
    channel.attendance ?? '',
    channel.space ? `space ${spaces.find(space => space.id === channel.space)?.name ?? channel.space}` : '',
  ].filter(Boolean)
  return words.join(', ') || 'all calls'
}

export type ChannelForm = {
  name: string
  kind: Schemas['ChannelKind']
  /** What was typed for the settings, by their names. */
  texts: Record<string, string>
  tiers: readonly Tier[]
  attendance: '' | Schemas['Attendance']
  space: string
  after: string
}

export type ChannelField = { name: string; label: string; hint: string; isSecret?: boolean; isOptional?: boolean; example?: string }

/** What each kind of channel needs. */
export const FIELDS: Record<Schemas['ChannelKind'], readonly ChannelField[]> = {
  webhook: [
    { name: 'url', label: 'Address', hint: 'An operator allows its host.', example: 'https://hooks.example.com/countersign' },
    { name: 'secret', label: 'Secret that signs', hint: 'whsec_ and 24 to 64 bytes in base64.', isSecret: true },
  ],
  slack: [
    { name: 'channel', label: 'Channel', hint: 'By its id.', example: 'C024BE91L' },
    { name: 'token', label: 'Secret with the bot’s token', hint: '', isSecret: true },
    { name: 'signing_secret', label: 'Secret with Slack’s signing secret', hint: '', isSecret: true },
    {
      name: 'users',
      label: 'Who is who',
      hint: 'A user of Slack and a person of ours on each line; only they can answer there.',
      isOptional: true,
      example: 'U123=robin',
    },
  ],
  email: [
    { name: 'to', label: 'To', hint: 'One address on each line.', example: 'robin@example.com' },
    { name: 'from', label: 'From', hint: '', example: 'countersign@example.com' },
    { name: 'server', label: 'Mail server', hint: '', example: 'smtps://mail.example.com' },
    { name: 'username', label: 'User name there', hint: '', isOptional: true },
    { name: 'password', label: 'Secret with the password', hint: '', isSecret: true, isOptional: true },
  ],
}

/** Several lines are several values. */
export const isLong = (field: ChannelField): boolean => field.name === 'to' || field.name === 'users'

const lines = (text: string): string[] =>
  text
    .split(/[\n,]/)
    .map(line => line.trim())
    .filter(Boolean)

/** The request that a filled form makes. */
export function channelRequest(form: ChannelForm): Schemas['NewChannelRequest'] {
  const settings: Record<string, unknown> = {}
  for (const field of FIELDS[form.kind]) {
    const text = (form.texts[field.name] ?? '').trim()
    if (text === '') continue
    if (field.name === 'to') settings.to = lines(text)
    else if (field.name === 'users')
      settings.users = Object.fromEntries(
        lines(text).map(pair => {
          const at = pair.indexOf('=')
          return at < 0 ? [pair, ''] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
        }),
      )
    else settings[field.name] = text
  }
  return {
    name: form.name.trim(),
    kind: form.kind,
    settings,
    tiers: [...form.tiers],
    attendance: form.attendance || undefined,
    space: form.space || undefined,
    after: form.after.trim() || undefined,
  }
}

/** What must still be filled in. */
export const missing = (form: ChannelForm): string[] => [
  ...(form.name.trim() ? [] : ['Name']),
  ...FIELDS[form.kind].filter(field => !field.isOptional && !(form.texts[field.name] ?? '').trim()).map(field => field.label),
]

export const KEPT: readonly { name: keyof Retention; flag: string; label: string; unit: string; without: string; goes: string }[] = [
  {
    name: 'receipts_days',
    flag: '--receipts-days',
    label: 'Ended calls',
    unit: 'days',
    without: 'for ever',
    goes: 'The call goes with its params and result. Its receipt stays, and verifies.',
  },
  { name: 'events_days', flag: '--events-days', label: 'Events', unit: 'days', without: '7 days', goes: 'The oldest go first.' },
  {
    name: 'snapshots_days',
    flag: '--snapshots-days',
    label: 'Snapshots',
    unit: 'days',
    without: '180 days',
    goes: 'The effect can no longer be reverted.',
  },
  {
    name: 'snapshot_bytes_max',
    flag: '--snapshot-bytes-max',
    label: 'Size of all snapshots',
    unit: 'bytes',
    without: 'as the disk has room',
    goes: 'The oldest go, but none of the last day.',
  },
]

/** A whole number, nothing, or undefined if it is neither. */
export function wholeNumber(text: string): number | null | undefined {
  const trimmed = text.trim().replaceAll(/[\s_,]/g, '')
  if (trimmed === '') return null
  return /^\d{1,15}$/.test(trimmed) ? Number(trimmed) : undefined
}
