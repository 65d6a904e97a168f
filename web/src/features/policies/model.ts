// What the pages of the rules say in words, and how their lists stand. Pure.
import type { Mode, Schemas } from '@/api/types'
import { quoted, span } from '@/lib/format'

export { quoted }

export type PolicySet = keyof Schemas['PoliciesFile']
export const SETS: readonly { set: PolicySet; rules: string }[] = [
  { set: 'rbac', rules: 'Does the principal hold what the action requires? A forbid denies; a permit gives what is required.' },
  { set: 'abac', rules: 'When, with what content, in what state? A forbid denies, or asks a person if an approval satisfies it.' },
  { set: 'consent', rules: 'Is there a consent for it? A forbid denies, or asks a person if an approval satisfies it.' },
  { set: 'space', rules: 'May it be done in this space? A forbid denies, or asks a person if an approval satisfies it.' },
]
export const NO_POLICIES: Schemas['PoliciesFile'] = { rbac: '', abac: '', consent: '', space: '' }

export const isSame = (a: Schemas['PoliciesFile'], b: Schemas['PoliciesFile']): boolean => SETS.every(({ set }) => a[set] === b[set])

/** The set that an error is about: `/abac` is the pointer of one. */
export const setOf = (error: Schemas['FieldError']): PolicySet | undefined =>
  SETS.find(({ set }) => error.pointer.startsWith(`/${set}`))?.set

/** Where a line and a column, counted from 1, are in a text. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split('\n')
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)
  return Math.min(text.length, before + Math.min(column - 1, lines[line - 1]?.length ?? 0))
}

export type Kind = 'held' | 'denied' | 'loosened'
export const KINDS: readonly { kind: Kind; name: string; means: string }[] = [
  { kind: 'held', name: 'newly held', means: 'ran, and would ask a person' },
  { kind: 'denied', name: 'newly denied', means: 'ran or asked, and would be denied' },
  { kind: 'loosened', name: 'loosened', means: 'would be less strict than now' },
]

const STRICT: Record<Schemas['WouldName'], number> = { runs: 0, asks: 1, quarantined: 2, denied: 3, refused: 3 }

/** How a call of the record would fare otherwise. */
export function kindOf({ before, after }: Pick<Schemas['WhatIfChange'], 'before' | 'after'>): Kind {
  if (STRICT[after] < STRICT[before]) return 'loosened'
  return after === 'asks' ? 'held' : 'denied'
}

export const WOULD: Record<Schemas['WouldName'], { word: string; tone: string }> = {
  runs: { word: 'runs', tone: 'text-ok' },
  asks: { word: 'asks a person', tone: 'text-warn' },
  denied: { word: 'denied', tone: 'text-danger' },
  quarantined: { word: 'quarantined', tone: 'text-warn' },
  refused: { word: 'refused: it is not valid', tone: 'text-danger' },
}

export const MODES: readonly Mode[] = ['allow', 'require_approval', 'deny']

/** Modes as they stand in an address: `files.write_text:deny,http.get:allow`. What is not one is left out. */
export function modesIn(text: string | undefined): { action: string; mode: Mode }[] {
  return (text ?? '').split(',').flatMap(part => {
    const at = part.lastIndexOf(':')
    const mode = MODES.find(each => each === part.slice(at + 1))
    return at > 0 && mode ? [{ action: part.slice(0, at), mode }] : []
  })
}

export const modesText = (modes: readonly { action: string; mode: Mode }[]): string | undefined =>
  modes.map(({ action, mode }) => `${action}:${mode}`).join(',') || undefined

/** A rule as it is written: `org: files.write_text → allow, locked`. */
export const ruleText = (scope: string, action: string, mode: Mode | undefined, isLocked: boolean): string =>
  `${scope}: ${action} → ${mode ?? 'not set'}${mode && isLocked ? ', locked' : ''}`

/** What is used of a budget, of all there is. `most` is 0 for a budget of nothing. */
export type Budget = { name: string; used: number; most: number; text: string }

export function budgetsOf(grant: Schemas['GrantView']): Budget[] {
  const budgets: Budget[] = []
  if (grant.calls_max != null) {
    budgets.push({ name: 'calls', used: grant.calls_used, most: grant.calls_max, text: `${grant.calls_used} of ${grant.calls_max} calls` })
  }
  const sum = grant.sum_max
  if (sum) {
    const text = `${sum.spent} of ${sum.max} ${sum.of} in ${span(sum.per_seconds)}`
    budgets.push({ name: sum.of, used: Number(sum.spent), most: Number(sum.max), text })
  }
  return budgets
}

/** The kind of a scope and its id: `session:ses_…`, `automation:aut_…`, `org`. */
export function scopeOf(scope: string): { kind: string; id: string } {
  const at = scope.indexOf(':')
  return at < 0 ? { kind: scope, id: '' } : { kind: scope.slice(0, at), id: scope.slice(at + 1) }
}

/** Rows stay where they are while somebody looks. What comes below the last one is added; what comes above waits. */
export function steady(shown: readonly string[] | undefined, listed: readonly string[]): { rows: readonly string[]; fresh: number } {
  if (!shown || shown.length === 0) return { rows: listed, fresh: 0 }
  const known = new Set(shown)
  const last = listed.findLastIndex(id => known.has(id))
  const isBelow = (at: number) => last >= 0 && at > last
  const below = listed.filter((id, at) => !known.has(id) && isBelow(at))
  return { rows: [...shown, ...below], fresh: listed.filter((id, at) => !known.has(id) && !isBelow(at)).length }
}

/** The command that gives the same grant. */
export function giveCommand(grant: Schemas['NewGrantRequest']): string {
  const sum = grant.sum_max
  return [
    'countersign grant give',
    quoted(grant.covers || '…'),
    grant.scope === 'session' ? `--session ${grant.session_id || '…'}` : '',
    grant.scope === 'automation' ? `--automation ${grant.automation_id || '…'}` : '',
    grant.scope === 'org' ? '--org' : '',
    grant.space_id ? `--space ${grant.space_id}` : '',
    grant.calls_max != null ? `--calls ${grant.calls_max}` : '',
    sum ? `--sum-max ${quoted(sum.max)} --of ${quoted(sum.of)} --per ${quoted(sum.per)}` : '',
    grant.expires_in ? `--expires ${grant.expires_in}` : '',
    grant.condition ? `--condition ${quoted(JSON.stringify(grant.condition))}` : '',
    grant.reason ? `--reason ${quoted(grant.reason)}` : '',
  ]
    .filter(Boolean)
    .join(' ')
}
