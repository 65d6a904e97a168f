// What the entries of a log say of one call, in the order in which they were written. Pure.
import type { Entry, Schemas, Status } from '@/api/types'
import type { Stage } from '@/components/rail'
import { MODE_SOURCES } from '@/lib/decision'
import { milliseconds } from '@/lib/format'
import { asItIs, type NameOf } from '@/lib/names'

/** The parts of a receipt's body that the pages show; all else is in the payload, whole. */
export type Body = {
  action?: string
  status?: Status
  tier?: string
  dry_run?: boolean
  /** Only where it is true. */
  observed?: boolean
  principal?: string
  session?: string
  invocation_id?: string
  receipt_id?: string
  error?: { code?: string } | string | null
  policy?: Record<string, { verdict: string; determining: string[] }>
  decision?: { base: string; mode: string; source: Schemas['ModeSource']; tightened: string[] }
  approval?: { approvers?: string[] } | null
  timing?: { queued_ms?: number; exec_ms?: number; total_ms?: number; started_at?: string | null; ended_at?: string }
  verification?: { checks: string[]; ok: boolean } | null
  rollback?: unknown
  repair?: unknown
  attempts?: number
  attempt?: number
  trace_id?: string
  answer?: string
  by?: string
  /** `once`, `always`, or the grant that was given with it. */
  beyond?: string | Record<string, unknown>
  mode?: string
  parts?: unknown
}

export const bodyOf = (entry: Entry): Body => (entry.payload as { body?: Body }).body ?? {}
export const timeOf = (entry: Entry): string => (entry.payload as { entry?: { at?: string } }).entry?.at ?? ''

const beyondOf = (beyond: Body['beyond']): string => {
  const word = typeof beyond === 'object' ? (Object.keys(beyond)[0] ?? '') : (beyond ?? '')
  return word === '' || word === 'once' ? '' : `, ${word}`
}

/** In the order in which they are asked; the signed text has its names in the order of the alphabet. */
const GATES = ['rbac', 'abac', 'consent', 'space', 'safety', 'redaction']

/** The stages of a call, from its gates to its receipt. */
export function stagesOf(entries: readonly Entry[], nameOf: NameOf = asItIs): Stage[] {
  const stages: Stage[] = []
  const last = bodyOf(entries.findLast(entry => entry.kind === 'receipt') ?? entries[entries.length - 1] ?? ({ payload: {} } as Entry))
  for (const [gate, { verdict, determining }] of Object.entries(last.policy ?? {}).sort(
    ([a], [b]) => GATES.indexOf(a) - GATES.indexOf(b),
  )) {
    if (verdict === 'not_applicable') continue
    const tone = verdict === 'ok' || verdict === 'redacted' ? 'ok' : verdict === 'needs_approval' ? 'plain' : 'bad'
    stages.push({ name: `gate ${gate}`, text: [verdict, determining.join(', ')].filter(Boolean).join(': '), tone })
  }
  if (last.decision) {
    const { base, mode, source, tightened } = last.decision
    stages.push({
      name: 'decided',
      text: [`${MODE_SOURCES[source]}: ${base}`, ...tightened, ...(mode === base ? [] : [mode])].join(' → '),
      tone: mode === 'deny' ? 'bad' : 'plain',
    })
  }
  for (const entry of entries) {
    const [body, at] = [bodyOf(entry), timeOf(entry)]
    if (entry.kind === 'answer')
      stages.push({
        at,
        name: body.answer === 'deny' ? 'denied' : 'approved',
        text: `by ${body.by ? nameOf(body.by) : 'somebody'}${beyondOf(body.beyond)}`,
        tone: body.answer === 'deny' ? 'bad' : 'ok',
      })
    if (entry.kind === 'intent') stages.push({ at, name: 'began', text: `attempt ${body.attempt ?? 1}`, tone: 'plain' })
    if (entry.kind === 'receipt') {
      const { timing, verification } = body
      if (verification && verification.checks.length > 0)
        stages.push({ name: 'verified', text: verification.checks.join(', '), tone: verification.ok ? 'ok' : 'bad' })
      const took = [
        timing?.queued_ms ? `waited ${milliseconds(timing.queued_ms)}` : '',
        timing?.exec_ms != null ? `ran ${milliseconds(timing.exec_ms)}` : '',
      ]
        .filter(Boolean)
        .join(', ')
      stages.push({ at, name: body.status ?? 'ended', text: took, tone: body.status === 'succeeded' ? 'ok' : 'bad' })
    }
  }
  return stages
}
