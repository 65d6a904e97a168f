// What the settings say of tokens and channels, and what their forms send. Pure.
import type { Schemas, Tier } from '@/api/types'
import type { Channel, ChannelKind, Retention, Role, Token } from './queries'

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

/** Whom or what a channel tells: the first setting of its kind. */
export function tells(channel: Channel, kinds: readonly ChannelKind[]): string {
  const first = kinds.find(kind => kind.kind === channel.kind)?.settings[0]
  const said = first && ((channel.settings ?? {}) as Record<string, unknown>)[first.name]
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
  /** What was typed for the settings, by their names. */
  texts: Record<string, string>
  tiers: readonly Tier[]
  attendance: '' | Schemas['Attendance']
  space: string
  after: string
}

export type ChannelField = ChannelKind['settings'][number]

/** Several lines are several values. */
export const isLong = (field: ChannelField): boolean => field.shape === 'recipients' || field.shape === 'people'

const lines = (text: string): string[] =>
  text
    .split(/[\n,]/)
    .map(line => line.trim())
    .filter(Boolean)

/** The request that a filled form makes. */
export function channelRequest(form: ChannelForm, kind: ChannelKind): Schemas['NewChannelRequest'] {
  const settings: Record<string, unknown> = {}
  for (const field of kind.settings) {
    const text = (form.texts[field.name] ?? '').trim()
    if (text === '') continue
    if (field.shape === 'recipients') settings[field.name] = lines(text)
    else if (field.shape === 'people')
      settings[field.name] = Object.fromEntries(
        lines(text).map(pair => {
          const at = pair.indexOf('=')
          return at < 0 ? [pair, ''] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
        }),
      )
    else settings[field.name] = text
  }
  return {
    name: form.name.trim(),
    kind: kind.kind,
    settings,
    tiers: [...form.tiers],
    attendance: form.attendance || undefined,
    space: form.space || undefined,
    after: form.after.trim() || undefined,
  }
}

/** What must still be filled in. */
export function missing(form: ChannelForm, kind: ChannelKind): string[] {
  const isGiven = (name: string) => !!form.texts[name]?.trim()
  const isNeeded = (field: ChannelField) =>
    field.is_required || kind.settings.some(other => other.needs === field.name && isGiven(other.name))
  const fields = kind.settings.filter(field => isNeeded(field) && !isGiven(field.name)).map(field => field.label)
  return form.name.trim() ? fields : ['Name', ...fields]
}

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
