// What an event says in one line, and which events a filter lets through. Pure.
import type { Schemas } from '@/api/types'
import type { OrgEvent } from '@/lib/live'
import { asItIs, type NameOf } from '@/lib/names'
import type { EventFilter } from './queries'

/** The first words of the names of events. */
export const KINDS = [
  'invocation',
  'automation',
  'document',
  'event',
  'event_group',
  'batch',
  'grant',
  'mode',
  'policy',
  'switch',
  'space',
  'action',
  'source',
  'channel',
  'quarantine',
  'breaker',
  'user',
  'token',
  'secret',
  'connection',
  'consent',
  'canary',
  'retention',
  'org',
] as const

/** The stream tells some events a second time under an older name. */
export const isRepeated = (event: Pick<OrgEvent, 'cursor'>): boolean => event.cursor.includes('.')

/** As the server filters: by the whole name or its first word, and by the whole subject. */
export function fits(event: Pick<OrgEvent, 'type' | 'subject'>, { type, subject }: EventFilter): boolean {
  return (!type || event.type === type || event.type.startsWith(`${type}.`)) && (!subject || event.subject === subject)
}

/** The summary of a call, or who changed what. */
export function summaryOf(event: Pick<OrgEvent, 'data' | 'subject'>, nameOf: NameOf = asItIs): string {
  const { summary, by, change, action } = event.data as { summary?: unknown; by?: unknown; change?: unknown; action?: unknown }
  if (typeof summary === 'string') return summary
  // An id says nothing to a reader; the name of an action does.
  const words = /^[a-z]{3}_/.test(event.subject) || event.subject === action ? [] : [event.subject]
  if (typeof by === 'string') words.push(`by ${nameOf(by)}`)
  const told = typeof change === 'object' && change !== null ? (change as Record<string, unknown>) : (event.data as Record<string, unknown>)
  for (const name of ['name', 'mode', 'scope', 'state', 'reason'])
    if (typeof told[name] === 'string' && told[name] !== '' && told[name] !== event.subject) words.push(`${name} ${told[name]}`)
  if (typeof action === 'string') words.push(action)
  return words.join(' · ')
}

/** The newest first, each once, those of the stream before those that were read. */
export function joined(live: readonly OrgEvent[], read: readonly OrgEvent[]): OrgEvent[] {
  const seen = new Set<string>()
  return [...live, ...read].filter(event => !seen.has(event.cursor) && seen.add(event.cursor))
}

export type Group<Letter> = { problem: string; letters: Letter[] }

/** Dead letters with the same problem stand together, the largest group first. */
export function grouped<Letter extends { problem?: string | null }>(letters: readonly Letter[]): Group<Letter>[] {
  const groups = new Map<string, Group<Letter>>()
  for (const letter of letters) {
    const problem = letter.problem ?? 'not known'
    const group: Group<Letter> = groups.get(problem) ?? { problem, letters: [] }
    group.letters.push(letter)
    groups.set(problem, group)
  }
  return [...groups.values()].sort((a, b) => b.letters.length - a.letters.length)
}

/** What a channel was not told, by the moment of the notice. */
export const UNTOLD: Record<Schemas['Moment'], string> = {
  pending: 'that it waits',
  decided: 'that it was decided',
  in_doubt: 'that its outcome is unknown',
  ended: 'how it ended',
}

/** What a dead letter is and who gave it up, in one line. */
export function letterInWords({ kind, place, what }: Pick<Schemas['DeadLetterView'], 'kind' | 'place' | 'what'>): string {
  switch (kind) {
    case 'event':
      return `${what}, given up by the group ${place}`
    case 'delivery':
      return `${place} was not told ${UNTOLD[what as Schemas['Moment']] ?? what}`
    case 'invocation':
      return `${place} ${what}`
  }
}

/** Whether somebody may ask for it once more. A call is a new call, of whoever asks. */
export const mayRetry = (kind: Schemas['LetterKind'], may: readonly string[]): boolean =>
  may.includes(kind === 'invocation' ? 'invoke' : 'manage_policy')
