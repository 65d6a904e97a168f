// Rows of the list, and what a person types about a source, to what the server is sent.
import type { ApiError } from '@/api/client'
import type { Action, Schemas, Source, Tier } from '@/api/types'
import type { Told } from '@/components/field'
import type { Connection } from '@/features/secrets/queries'
import type { Package } from '@/features/settings/queries'
import { milliseconds } from '@/lib/format'
import type { Preset } from './presets'
import type { AddedSource } from './queries'

export type Kind = 'http' | 'program' | 'package' | 'installed' | 'builtin'
export const KINDS: Record<Kind, string> = {
  http: 'MCP server',
  program: 'MCP program',
  package: 'MCP program of a package',
  installed: 'package',
  builtin: 'built in',
}

export type Health = 'answers' | 'paused' | 'needs_login' | 'away' | 'stuck' | 'never' | 'removed'
export type Row = {
  id: string
  title: string
  kind: Kind
  place: string
  health: Health
  why?: string
  actions: number
  drifted: number
  connection?: { name: string; state?: Connection['state'] }
}

const drifted = (actions: readonly { drift: Action['drift'] }[]): number => actions.filter(action => action.drift !== 'none').length

export const placeOf = (source: AddedSource): string => source.url ?? source.command?.join(' ') ?? source.package ?? ''

export function healthOf(source: AddedSource, connection: Connection | undefined): Health {
  if (source.removed_at) return 'removed'
  if (source.paused) return 'paused'
  if (connection?.state === 'needs_login') return 'needs_login'
  if (source.harvest.error || source.harvest.is_stale) return 'away'
  return source.harvest.listed_at ? 'answers' : 'never'
}

export function rowOf(source: AddedSource, connections: readonly Connection[]): Row {
  const connection = connections.find(each => each.id === source.connection?.id)
  return {
    id: source.id,
    title: source.title,
    kind: source.kind === 'program' || source.kind === 'package' ? source.kind : 'http',
    place: placeOf(source),
    health: healthOf(source, connection),
    why: source.harvest.error ?? connection?.why ?? undefined,
    actions: source.harvest.actions.length,
    drifted: drifted(source.harvest.actions),
    connection: source.connection ? { name: source.connection.name, state: connection?.state } : undefined,
  }
}

/** A source that nobody added: what the program itself has, and what packages bring. */
export function rowOfCatalogue(source: Source, packages: readonly Package[] = []): Row {
  const installed = packages.flatMap(each => each.actions).filter(action => source.actions.some(({ id }) => id === action.id))
  const isStuck = installed.length > 0 && installed.every(action => action.cannot_run)
  return {
    id: source.id,
    title: source.title,
    kind: source.error || source.actions.some(action => action.package_sha256) ? 'installed' : 'builtin',
    place: '',
    health: source.error || source.stale ? 'away' : isStuck ? 'stuck' : 'answers',
    why: source.error ?? (isStuck ? installed[0]?.cannot_run : undefined) ?? undefined,
    actions: source.actions.length,
    drifted: drifted(source.actions),
  }
}

/** All sources, those that were added first, and each once. */
export function rowsOf(
  added: readonly AddedSource[],
  connections: readonly Connection[],
  catalogue: readonly Source[],
  packages: readonly Package[] = [],
): Row[] {
  const known = new Set(added.map(source => source.id))
  const others = catalogue.filter(source => !known.has(source.id))
  return [...added.map(source => rowOf(source, connections)), ...others.map(source => rowOfCatalogue(source, packages))]
}

export type Shown = 'drifted' | 'failing'
export const isShown = (row: Row, shown: Shown | undefined): boolean =>
  shown === 'drifted' ? row.drifted > 0 : shown === 'failing' ? row.health !== 'answers' : true

/** The words of a command, as a shell would take them: a quoted part is one word. */
export function words(command: string): string[] {
  const found = command.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? []
  return found.map(word => word.replace(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ''))
}

export type Variable = { key: number; name: string; from: 'value' | 'secret'; value: string; secret: string }

/** A source as it is typed. */
export type Draft = {
  name: string
  title: string
  kind: 'http' | 'program' | 'package'
  url: string
  command: string
  package: string
  env: Variable[]
  connection: string
  defaultTier: Tier | ''
  trustHints: boolean
  spaces: string[] | null
  listSeconds: string
  callSeconds: string
}

export const emptyDraft: Draft = {
  name: '',
  title: '',
  kind: 'http',
  url: '',
  command: '',
  package: '',
  env: [],
  connection: '',
  defaultTier: '',
  trustHints: false,
  spaces: null,
  listSeconds: '',
  callSeconds: '',
}

export const draftOfPreset = (preset: Preset): Draft => ({
  ...emptyDraft,
  name: preset.id,
  title: preset.title.replace(/ \(.*\)$/, ''),
  kind: preset.command ? 'program' : 'http',
  url: preset.url ?? '',
  command: preset.command ?? '',
})

export const draftOf = (source: AddedSource): Draft => ({
  ...emptyDraft,
  name: source.id,
  title: source.title,
  kind: source.kind === 'program' || source.kind === 'package' ? source.kind : 'http',
  url: source.url ?? '',
  command: source.command?.join(' ') ?? '',
  package: source.package ?? '',
  connection: source.connection?.name ?? '',
  defaultTier: source.default_tier ?? '',
  trustHints: source.trust_hints,
  spaces: source.spaces ?? null,
  listSeconds: String(source.list_timeout_ms / 1_000),
  callSeconds: String(source.call_timeout_ms / 1_000),
})

const millisecondsOf = (seconds: string): number | undefined => (seconds.trim() ? Math.round(Number(seconds) * 1_000) : undefined)

/** What is still missing, in words; undefined if nothing is. */
export function missing(draft: Draft): string | undefined {
  if (!draft.name.trim()) return 'It needs a name.'
  if (draft.kind === 'http' && !draft.url.trim()) return 'It needs an address.'
  if (draft.kind === 'program' && words(draft.command).length === 0) return 'It needs a command.'
  if (draft.kind === 'package' && !draft.package) return 'Choose a package.'
  if (draft.kind !== 'http' && draft.env.some(each => !each.name.trim() || (each.from === 'secret' && !each.secret)))
    return 'A variable needs a name, and a value or a secret.'
  if (draft.spaces?.length === 0) return 'Choose at least one space.'
  for (const seconds of [draft.listSeconds, draft.callSeconds])
    if (seconds.trim() && !(Number(seconds) > 0)) return 'A time is a number of seconds.'
  return undefined
}

export function requestOf(draft: Draft): Schemas['NewSourceRequest'] {
  const isHttp = draft.kind === 'http'
  return {
    name: draft.name.trim(),
    title: draft.title.trim() || undefined,
    url: isHttp ? draft.url.trim() : undefined,
    command: draft.kind === 'program' ? words(draft.command) : undefined,
    package: draft.kind === 'package' ? draft.package : undefined,
    env: isHttp
      ? undefined
      : draft.env.map(({ name, from, value, secret }) =>
          from === 'secret' ? { name: name.trim(), secret } : { name: name.trim(), value },
        ),
    connection: isHttp && draft.connection ? draft.connection : undefined,
    default_tier: draft.defaultTier || undefined,
    trust_hints: draft.trustHints,
    spaces: draft.spaces ?? undefined,
    list_timeout_ms: millisecondsOf(draft.listSeconds),
    call_timeout_ms: millisecondsOf(draft.callSeconds),
  }
}

/** Only what was changed, and for the version that was seen. Null removes what a source need not have. */
export function editOf(before: AddedSource, draft: Draft): Schemas['EditSourceRequest'] {
  const old = draftOf(before)
  const changed = <K extends keyof Draft>(name: K) => JSON.stringify(draft[name]) !== JSON.stringify(old[name])
  return {
    version: before.version,
    ...(changed('title') && { title: draft.title.trim() }),
    ...(changed('connection') && { connection: draft.connection || null }),
    ...(changed('defaultTier') && { default_tier: draft.defaultTier || null }),
    ...(changed('trustHints') && { trust_hints: draft.trustHints }),
    ...(changed('spaces') && { spaces: draft.spaces }),
    ...(changed('listSeconds') && { list_timeout_ms: millisecondsOf(draft.listSeconds) }),
    ...(changed('callSeconds') && { call_timeout_ms: millisecondsOf(draft.callSeconds) }),
  }
}

export type Place = 'name' | 'place' | 'connection' | 'other'

/** The field that a refusal is about. */
export function placeOfError({ problem }: ApiError): Place {
  const code = problem.error ?? problem.code
  if (problem.code === 'source_taken') return 'name'
  if (code === 'source_unauthorized' || code.startsWith('connection_') || code === 'login_failed') return 'connection'
  if (/^(host|address|url|command)_not_allowed$/.test(code) || code.startsWith('package_')) return 'place'
  // Whatever else the source or the way to it did: its place is the first to look at.
  if (problem.code === 'source_failed' || problem.code === 'source_unavailable') return 'place'
  return 'other'
}

/** What a test of a source found. */
export function testedSource(test: Schemas['SourceTestView']): Told {
  if (test.error) return { isGood: false, text: test.error.message, page: `/docs/errors/${test.error.code}` }
  const left = test.left_out > 0 ? `, ${test.left_out} left out` : ''
  const speaks = test.protocol ? ` and speaks MCP ${test.protocol}` : ''
  return { isGood: true, text: `It answers in ${milliseconds(test.took_ms)}${speaks}: ${test.actions} actions${left}.` }
}

/** Why an action has its tier, in words. */
export const BECAUSE: Record<string, string> = {
  override: 'set by an admin',
  protocol: 'it reads, by the protocol',
  destructive_hint: 'the server warns of it',
  read_only_hint: 'the server says it only reads',
  untrusted_hint: 'the server says it only reads, and is not believed',
  default: 'the default of this source',
  unknown: 'nothing says what it does',
  name: 'its name says so',
}
