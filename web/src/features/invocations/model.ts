// The way of one call through its stages, from being asked for to its end, as far as it has come. Pure.
import type { Entry, Invocation } from '@/api/types'
import type { Stage } from '@/components/rail'
import { cascade } from '@/features/inbox/model'
import { bodyOf, timeOf } from '@/features/receipts/model'
import { milliseconds } from '@/lib/format'
import { asItIs, type NameOf } from '@/lib/names'

const GOOD = ['ok', 'redacted']

/** The entries of the log say when each attempt began; all else is in the call itself. */
export function timeline(item: Invocation, entries: readonly Entry[], nameOf: NameOf = asItIs): Stage[] {
  const stages: Stage[] = [{ at: item.created_at, name: 'asked', text: `by ${nameOf(item.principal)}`, tone: 'plain' }]
  for (const { gate, verdict, determining, errors } of item.gates) {
    if (verdict === 'not_applicable') continue
    const tone = GOOD.includes(verdict) ? 'ok' : verdict === 'needs_approval' ? 'plain' : 'bad'
    const why = [...determining, ...(errors ?? [])].join(', ')
    stages.push({ name: `gate ${gate}`, text: [verdict.replace('_', ' '), why].filter(Boolean).join(': '), tone })
  }
  stages.push({ name: 'decided', text: cascade(item.decision).join(' → '), tone: item.decision.mode === 'deny' ? 'bad' : 'plain' })
  if (item.grant_id) stages.push({ name: 'granted', text: `${item.grant_id} stands for an approval`, tone: 'ok' })
  if (item.observed) stages.push({ name: 'observed', text: 'a person would have been asked; its space only observes', tone: 'plain' })
  if (item.status === 'pending') {
    const text = item.clock_stopped ? 'for a person; a kill switch has stopped its time' : 'for a person'
    stages.push({ name: 'waits', text, tone: 'plain' })
  } else if (item.waited_ms != null) stages.push({ name: 'waited', text: `${milliseconds(item.waited_ms)} for people`, tone: 'plain' })
  if (item.edit) {
    stages.push({ at: item.edit.at, name: 'edited', text: `by ${nameOf(item.edit.by)}: ${item.edit.changed.join(', ')}`, tone: 'plain' })
  }
  stages.push(...answers(item, nameOf))
  if (item.resumed_at) stages.push({ at: item.resumed_at, name: 'resumed', text: 'after a server stopped', tone: 'plain' })
  stages.push(...attempts(item, entries))
  for (const check of item.checks ?? [])
    stages.push({ name: 'verified', text: [check.name, check.detail].filter(Boolean).join(': '), tone: check.ok ? 'ok' : 'bad' })
  for (const name of ['repair', 'rollback'] as const) {
    const remedy = item[name]
    if (remedy?.attempted) stages.push({ name, text: remedy.ok ? 'succeeded' : 'failed', tone: remedy.ok ? 'ok' : 'bad' })
  }
  if (item.void) stages.push({ name: 'void', text: item.void.message, tone: 'bad' })
  if (item.settled) {
    const said = item.settled.reason ? `: “${item.settled.reason}”` : ''
    stages.push({ at: item.settled.at, name: 'settled', text: `by ${nameOf(item.settled.by)}${said}`, tone: 'plain' })
  }
  if (item.completed_at) stages.push(ending(item, item.completed_at))
  if (item.reverted_by) stages.push({ name: 'taken back', text: `by ${item.reverted_by}`, tone: 'plain' })
  return stages
}

function answers(item: Invocation, nameOf: NameOf): Stage[] {
  const said = (reason: string | null | undefined) => (reason ? `: “${reason}”` : '')
  const beyond = (mode: string | undefined) => (mode && mode !== 'once' ? `, ${mode}` : '')
  const approvals = (item.approvals ?? []).map(
    (answer): Stage => ({
      at: answer.at,
      name: 'approved',
      text: `by ${nameOf(answer.by)}${beyond(answer.mode)}${said(answer.reason)}`,
      tone: 'ok',
    }),
  )
  if (item.denied_by !== 'person' || !item.answer) return approvals
  return [
    ...approvals,
    { at: item.answer.at, name: 'denied', text: `by ${nameOf(item.answer.by)}${said(item.answer.reason)}`, tone: 'bad' },
  ]
}

function attempts(item: Invocation, entries: readonly Entry[]): Stage[] {
  const intents = entries.filter(entry => entry.kind === 'intent')
  if (intents.length > 0)
    return intents.map(entry => ({ at: timeOf(entry), name: 'began', text: `attempt ${bodyOf(entry).attempt ?? 1}`, tone: 'plain' }))
  return item.started_at ? [{ at: item.started_at, name: 'began', text: item.dry_run ? 'a dry run' : '', tone: 'plain' }] : []
}

function ending(item: Invocation, at: string): Stage {
  const text = [
    item.error ? `${item.error.code}: ${item.error.message}` : '',
    item.duration_ms != null ? `${milliseconds(item.duration_ms)}${item.waited_ms ? ' without the wait' : ''}` : '',
  ]
  return { at, name: item.status, text: text.filter(Boolean).join(' · '), tone: item.status === 'succeeded' ? 'ok' : 'bad' }
}

export type Part = { name: string; ms: number }

/** Where the time of an ended call went. */
export function parts(item: Invocation): Part[] {
  if (item.duration_ms == null) return []
  const ran = item.started_at && item.completed_at ? Date.parse(item.completed_at) - Date.parse(item.started_at) : 0
  return [
    { name: 'decided and queued', ms: Math.max(0, item.duration_ms - ran) },
    { name: 'waited for people', ms: item.waited_ms ?? 0 },
    { name: 'ran', ms: ran },
  ].filter(part => part.ms > 0)
}

/** `+12 ms` after it was asked for; below a minute to the millisecond. */
export function since(start: string, at: string): string {
  const ms = Math.max(0, Date.parse(at) - Date.parse(start))
  return `+${ms >= 1_000 && ms < 60_000 ? `${(ms / 1_000).toFixed(3)} s` : milliseconds(ms)}`
}
