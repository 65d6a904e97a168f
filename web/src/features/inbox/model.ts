// What the inbox knows and how it stands on the screen. Pure: the page feeds it, and it never moves what a person is looking at.
import type { Action, Invocation, Permission, Schemas, Status } from '@/api/types'
import { line } from '@/lib/clean'
import { ago, counted } from '@/lib/format'
import type { OrgEvent } from '@/lib/live'

/** The list as it is shown. Rows stay where they are until the person asks for the new ones. */
export type Shelf = {
  /** Everything that was read, by id; what ended stays, to be shown in grey. */
  known: ReadonlyMap<string, Invocation>
  /** The rows, in the order they are shown. */
  shown: readonly string[]
  /** New ones, which wait behind a button. */
  waiting: readonly string[]
  /** Put off by this person, until then. */
  snoozed: ReadonlyMap<string, string>
  /** Whether all that waited at the start is read. Until then, what is read is no news. */
  isWhole: boolean
  /** Whether some that end sooner stand below, because they were read later. */
  isMixed: boolean
}

export const EMPTY: Shelf = { known: new Map(), shown: [], waiting: [], snoozed: new Map(), isWhole: false, isMixed: false }

export type Step =
  | { kind: 'listed'; items: readonly Invocation[]; isWhole: boolean }
  | { kind: 'changed'; item: Invocation }
  | { kind: 'revealed' }
  | { kind: 'snoozed'; id: string; until: string }
  | { kind: 'woken'; id: string }

export function step(shelf: Shelf, next: Step): Shelf {
  switch (next.kind) {
    case 'listed': {
      const known = new Map(shelf.known)
      // A call is pending once: a list that says so of one that was answered is older than the answer.
      for (const item of next.items) if ((known.get(item.id)?.status ?? 'pending') === 'pending') known.set(item.id, item)
      const isWhole = shelf.isWhole || next.isWhole
      // Nothing is looked at yet, so nothing can jump.
      if (shelf.shown.length === 0) return { ...shelf, known, shown: ordered(next.items), waiting: [], isWhole }
      const fresh = ordered(next.items.filter(item => !shelf.known.has(item.id)))
      if (!shelf.isWhole) {
        const shown = [...shelf.shown, ...fresh]
        return { ...shelf, known, shown, isWhole, isMixed: ordered(shown.flatMap(id => known.get(id) ?? [])).join() !== shown.join() }
      }
      return { ...shelf, known, waiting: [...shelf.waiting, ...fresh] }
    }
    case 'changed': {
      const isNew = !shelf.known.has(next.item.id)
      if (isNew && next.item.status !== 'pending') return shelf
      const known = new Map(shelf.known).set(next.item.id, { session_title: shelf.known.get(next.item.id)?.session_title, ...next.item })
      if (!isNew) return { ...shelf, known }
      return shelf.shown.length === 0
        ? { ...shelf, known, shown: [next.item.id] }
        : { ...shelf, known, waiting: [...shelf.waiting, next.item.id] }
    }
    case 'revealed': {
      const open = [...shelf.known.values()].filter(item => item.status === 'pending' && !shelf.snoozed.has(item.id))
      return { ...shelf, known: new Map(open.map(item => [item.id, item])), shown: ordered(open), waiting: [], isMixed: false }
    }
    case 'snoozed':
      return { ...shelf, snoozed: new Map(shelf.snoozed).set(next.id, next.until) }
    case 'woken': {
      const snoozed = new Map(shelf.snoozed)
      snoozed.delete(next.id)
      return { ...shelf, snoozed }
    }
  }
}

/** What ends soonest stands first; what does not end, or is stopped, last. */
export function ordered(items: readonly Invocation[]): string[] {
  const key = (item: Invocation) => item.expires_at ?? '9999'
  return [...items].sort((a, b) => key(a).localeCompare(key(b)) || a.id.localeCompare(b.id)).map(item => item.id)
}

/** Whether a person can still answer it. */
export function isOpen(item: Invocation, now: number): boolean {
  return item.status === 'pending' && !item.void && (item.expires_at == null || Date.parse(item.expires_at) > now)
}

/** Its status as it is shown: what can no longer be answered is not called pending. */
export function statusOf(item: Invocation, now: number): Status | 'void' {
  if (item.status !== 'pending' || isOpen(item, now)) return item.status
  return item.void ? 'void' : 'expired'
}

/** Rows that only wait to be cleared away, besides the new ones: those that have ended, and those that were put off. */
export function gone(shelf: Shelf, now: number): { ended: number; putOff: number } {
  const open = shelf.shown.filter(id => {
    const item = shelf.known.get(id)
    return item && isOpen(item, now)
  })
  return { ended: shelf.shown.length - open.length, putOff: open.filter(id => shelf.snoozed.has(id)).length }
}

/** Those whose action, session, params or reason contain every word. */
export function matches(item: Invocation, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return true
  const text = [item.id, item.action, item.tier, item.session_title, item.principal, item.reason, JSON.stringify(item.params)]
    .join(' ')
    .toLowerCase()
  return words.every(word => text.includes(word))
}

/** Our own title: the action and its first short params. Nobody else writes it. */
export function titleOf(item: Pick<Invocation, 'action' | 'params'>): string {
  const told = Object.entries(item.params)
    .filter(([name, value]) => !name.startsWith('_') && ['string', 'number', 'boolean'].includes(typeof value))
    .slice(0, 2)
    .map(([name, value]) => `${line(name)}: ${cut(firstLine(String(value)), 40)}`)
  return told.length ? `${item.action} · ${told.join(' · ')}` : item.action
}

/** A title is one line: of several the first that says something, and a sign that there is more. The params show all of it. */
function firstLine(text: string): string {
  const [first = '', ...more] = text.trim().split(/\r\n|\n|\r/)
  return line(first) + (more.length > 0 ? ' …' : '')
}

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…` : text)

export { cascade } from '@/lib/decision'

/** Why no approval fits it any more, be it pending still or ended by what changed. */
function voidOf(item: Invocation): { message: string } | null | undefined {
  return item.void ?? (item.denied_by === 'binding' || item.denied_by === 'drift' ? item.error : undefined)
}

/** Why it went grey, in one sentence; undefined while it can be answered. */
export function closedBecause(item: Invocation, now: number, nameOf = (principal: string) => principal): string | undefined {
  const changed = voidOf(item)
  if (changed) return `Void: ${line(changed.message)}`
  if (item.status === 'pending') {
    return item.expires_at != null && Date.parse(item.expires_at) <= now ? 'Its time to be answered is over; nothing was done.' : undefined
  }
  const at = item.answer ? ago(item.answer.at, now) : ''
  const by = item.answer ? ` by ${line(nameOf(item.answer.by))} ${at === 'now' ? 'just now' : at}` : ''
  const said = item.answer?.reason ? `: “${line(item.answer.reason)}”` : ''
  if (item.settled) {
    const { by: settler, reason } = item.settled
    return `Settled as ${item.status} by ${line(nameOf(settler))}${reason ? `: “${line(reason)}”` : ''}.`
  }
  switch (item.status) {
    case 'approved':
      return `Approved${by}${said}. It starts soon, or when its caller asks again.`
    case 'running':
      return `Approved${by}${said}, and running.`
    case 'succeeded':
      return item.answer
        ? `Approved${by}${said}, and it succeeded.`
        : `${item.grant_id ? 'A grant covered it' : 'Nobody was asked'}, and it succeeded.`
    case 'failed':
      return `${item.answer ? `Approved${by}, and it` : 'It'} failed${item.error ? `: ${line(item.error.message)}` : '.'}`
    case 'reverted':
      return 'It was made and then reverted.'
    case 'denied':
      return item.denied_by === 'person' ? `Denied${by}${said}.` : `Denied: ${line(item.error?.message ?? 'a rule refused it')}`
    case 'quarantined':
      return 'It was put into quarantine.'
    case 'expired':
      return 'Nobody answered in time; nothing was done.'
    case 'cancelled':
      return 'It was withdrawn before anybody answered.'
    case 'in_doubt':
      return 'Its outcome is unknown, and it will not be repeated: a person settles it.'
  }
}

/** What is said to a person whose approval is counted, and does not suffice. */
export function mustToo(item: Invocation, needed: number | undefined): string {
  const more = (needed ?? 0) - (item.approvals?.length ?? 0)
  return `You approved; ${more > 0 ? counted(more, 'more person', 'more people') : 'another person'} must.`
}

/** Whether an event tells of a call that may have changed something: what another call would do may be different from then on. */
export function mayHaveChanged({ type, data }: Pick<OrgEvent, 'type' | 'data'>): boolean {
  return /^invocation\.(succeeded|failed|reverted|doubted)$/.test(type) && data.tier !== 'R0' && data.tier !== 'R1'
}

/** The same call, asked anew, that waits now: what is void cannot be approved any more, but this can. */
export function successorOf(item: Invocation, known: Iterable<Invocation>, now: number): Invocation | undefined {
  if (!voidOf(item)) return undefined
  return [...known].find(
    other =>
      other.id > item.id &&
      isOpen(other, now) &&
      other.session_id === item.session_id &&
      other.action === item.action &&
      other.digests.params === item.digests.params,
  )
}

/** Whether an automation made it. Each of its runs has a session of its own. */
export const isOfAutomation = (item: Pick<Invocation, 'principal'>): boolean => item.principal.startsWith('automation:')

/** The run that a call belongs to, and its step there; undefined for a call that no automation made. */
export function stepOf(item: Pick<Invocation, 'principal' | 'trace_id' | 'reason'>): { run: string; step: string | undefined } | undefined {
  if (!isOfAutomation(item) || !item.trace_id.startsWith('run_')) return undefined
  return { run: item.trace_id, step: /^step `([^`]+)` of the automation `/.exec(item.reason ?? '')?.[1] }
}

/** Whether it did, may have done, or is about to do what was asked. */
export const wentThrough = (item: Invocation): boolean => ['approved', 'running', 'succeeded', 'in_doubt'].includes(item.status)

/** Whether its definition changed since it was reviewed: before it was asked, or since. */
export const hasDrifted = (item: Invocation, action: Pick<Action, 'drift'> | undefined): boolean =>
  !!item.decision.tightened_by?.includes('drift') || (item.status === 'pending' && !!action && action.drift !== 'none')

const EFFECTS: Record<Schemas['Effect'], string> = {
  filesystem_read: 'reads files',
  filesystem_write: 'changes files',
  network_call: 'uses the network',
  device_notification: 'notifies people',
  user_visible: 'shows people something',
  camera: 'uses the camera',
  microphone: 'uses the microphone',
}

/** What its definition says that an action does to the world. */
export const declares = (effects: readonly Schemas['Effect'][]): string => effects.map(effect => EFFECTS[effect]).join(' and ')

/** A sentence of others that begins a line. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** The params that are amounts: those a grant can add up. By their JSON pointer. */
export function amounts(params: Record<string, unknown>): string[] {
  return Object.entries(params)
    .filter(([, value]) => typeof value === 'number')
    .map(([name]) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)
}

/** Why nothing beyond this one call can be allowed from here; undefined if it can. */
export function onlyOnce(item: Invocation, action: Action | undefined): string | undefined {
  if (item.class === 'danger') return 'An R4 action is approved one call at a time.'
  if (hasDrifted(item, action)) return 'Its definition has changed since it was reviewed: review it first.'
  if (item.dry_run) return 'A dry run has no effect to allow.'
  return undefined
}

export function mayAlways(item: Invocation, action: Action | undefined, permissions: readonly Permission[]): string | undefined {
  return (
    onlyOnce(item, action) ?? (permissions.includes('manage_policy') ? undefined : 'Setting a rule needs the permission manage_policy.')
  )
}

/** The rows from one to another, both included, however they stand. */
export function range(shown: readonly string[], from: string, to: string): string[] {
  const [a, b] = [shown.indexOf(from), shown.indexOf(to)].sort((x, y) => x - y)
  return a === undefined || b === undefined || a < 0 ? [to] : shown.slice(a, b + 1)
}

/** How long a denial waits for an undo: five seconds, or less when the call ends sooner. */
export function undoMs(item: Invocation, now: number): number {
  const left = item.expires_at == null ? Number.POSITIVE_INFINITY : Date.parse(item.expires_at) - now - 2_000
  return Math.max(0, Math.min(5_000, left))
}

/** Params that are not shown whole cannot be edited: a copy of them would be sent with the placeholder, or cut off. */
export function cannotEdit(params: Record<string, unknown>): string | undefined {
  const isWhole = !('_truncated' in params) && !JSON.stringify(params).includes('[redacted')
  return isWhole ? undefined : 'The params are not shown whole, so they cannot be edited here.'
}

/** The ids of those that ask for the same action with the same params, whatever their values. */
export function alike(items: readonly Invocation[], like: Invocation): string[] {
  const shape = (item: Invocation) => `${item.action} ${Object.keys(item.params).sort().join(' ')}`
  return items.filter(item => shape(item) === shape(like)).map(item => item.id)
}
