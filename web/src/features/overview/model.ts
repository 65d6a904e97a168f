// What the charts of the overview show, counted from the calls themselves. Pure.
import type { Invocation, Schemas } from '@/api/types'
import type { Range } from './range'

/** As much of a call as is counted. */
export type Call = Pick<Invocation, 'action' | 'status' | 'mode' | 'denied_by' | 'grant_id' | 'observed' | 'waited_ms' | 'created_at'> & {
  isAnswered: boolean
  isByAgent: boolean
}

export const callOf = (item: Invocation): Call => ({
  action: item.action,
  status: item.status,
  mode: item.mode,
  denied_by: item.denied_by,
  grant_id: item.grant_id,
  observed: item.observed,
  waited_ms: item.waited_ms,
  created_at: item.created_at,
  isAnswered: !!item.answer,
  isByAgent: !item.principal.startsWith('user:'),
})

const HOUR = 3_600_000
const SPANS: Record<Range, { buckets: number; ms: number; of: string }> = {
  '24h': { buckets: 24, ms: HOUR, of: 'hour' },
  '7d': { buckets: 14, ms: 12 * HOUR, of: '12 hours' },
  '30d': { buckets: 30, ms: 24 * HOUR, of: 'day' },
}

export const startOf = (range: Range, now: number): number => now - SPANS[range].buckets * SPANS[range].ms
export const lengthOf = (range: Range): string => SPANS[range].of

export const DECISIONS = ['allowed', 'asked a person', 'denied'] as const
export const FAILURES = ['failed', 'reverted', 'in_doubt'] as const

/** What the rules made of a call, whatever a person said afterwards. */
export function decisionOf(call: Call): (typeof DECISIONS)[number] {
  if (call.mode === 'deny' || call.status === 'quarantined' || (call.status === 'denied' && call.denied_by !== 'person')) return 'denied'
  return call.mode === 'require_approval' && !call.grant_id && !call.observed ? 'asked a person' : 'allowed'
}

export type Bucket = { from: number; to: number; counts: number[] }

/** The calls of each stretch of time, counted by name; the newest stretch ends now. */
export function buckets(
  calls: readonly Call[],
  range: Range,
  now: number,
  names: readonly string[],
  nameOf: (call: Call) => string,
): Bucket[] {
  const { buckets: length, ms } = SPANS[range]
  const start = startOf(range, now)
  const all = Array.from({ length }, (_, at) => ({ from: start + at * ms, to: start + (at + 1) * ms, counts: names.map(() => 0) }))
  for (const call of calls) {
    // A call may be made while they are counted.
    const at = Math.min(length - 1, Math.floor((Date.parse(call.created_at) - start) / ms))
    const name = names.indexOf(nameOf(call))
    const counts = all[at]?.counts
    if (counts && name >= 0) counts[name] = (counts[name] ?? 0) + 1
  }
  return all
}

export const totals = (all: readonly Bucket[], names: readonly string[]): number[] =>
  names.map((_, at) => all.reduce((sum, bucket) => sum + (bucket.counts[at] ?? 0), 0))

const WAITS: readonly (readonly [string, number])[] = [
  ['10 s', 10_000],
  ['1 min', 60_000],
  ['5 min', 300_000],
  ['30 min', 1_800_000],
  ['2 h', 7_200_000],
  ['more', Number.POSITIVE_INFINITY],
]

export type Waits = { count: number; median: number; p95: number; bars: { name: string; count: number }[] }

/** How long people took to answer; undefined if nobody was asked. */
export function waits(calls: readonly Call[]): Waits | undefined {
  const times = calls.flatMap(call => (call.isAnswered && call.waited_ms != null ? [call.waited_ms] : [])).sort((a, b) => a - b)
  if (times.length === 0) return undefined
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0
  const bars = WAITS.map(([name, below], index) => {
    const above = index === 0 ? -1 : (WAITS[index - 1]?.[1] ?? 0)
    return { name, count: times.filter(time => time < below && time >= above).length }
  })
  return { count: times.length, median: middle(times), p95: at(0.95), bars }
}

/** The median of sorted times: of an even number of them, the mean of the two in the middle. */
function middle(times: readonly number[]): number {
  const [lower, upper] = [times[Math.floor((times.length - 1) / 2)] ?? 0, times[Math.floor(times.length / 2)] ?? 0]
  return Math.round((lower + upper) / 2)
}

/** The actions that were called most, and what became of their calls. */
export function topActions(calls: readonly Call[], most: number): { action: string; count: number; failed: number }[] {
  const found = new Map<string, { action: string; count: number; failed: number }>()
  for (const call of calls) {
    const one = found.get(call.action) ?? { action: call.action, count: 0, failed: 0 }
    one.count += 1
    if (FAILURES.some(status => status === call.status)) one.failed += 1
    found.set(call.action, one)
  }
  return [...found.values()].sort((a, b) => b.count - a.count || a.action.localeCompare(b.action)).slice(0, most)
}

export type Facts = {
  calls: readonly Call[]
  sessions: readonly Pick<Schemas['SessionView'], 'title'>[]
  sources: readonly Pick<Schemas['AddedSourceView'], 'removed_at'>[]
  users: readonly Pick<Schemas['UserView'], 'id' | 'role' | 'disabled_at'>[]
  channels: readonly Pick<Schemas['ChannelView'], 'removed_at'>[]
  me: string
  isNotified: boolean
}
export type StepName = 'agent' | 'source' | 'approver' | 'notifications'

/** Sessions that people open by using the command line or this page are of no agent. */
const isAgents = (title: string): boolean => !/^(cli($|@)|Tried in the web UI$)/.test(title)
const MAY_ANSWER: readonly Schemas['Role'][] = ['approver', 'admin', 'owner']

/** Which of the first steps are done. */
export function stepsDone(facts: Facts): Record<StepName, boolean> {
  return {
    agent: facts.calls.some(call => call.isByAgent) || facts.sessions.some(session => isAgents(session.title)),
    source: facts.sources.some(source => !source.removed_at),
    approver: facts.users.some(user => `user:${user.id}` !== facts.me && !user.disabled_at && MAY_ANSWER.includes(user.role)),
    notifications: facts.isNotified || facts.channels.some(channel => !channel.removed_at),
  }
}
