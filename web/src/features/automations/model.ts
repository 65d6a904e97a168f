// Definitions and what stands around them, for the pages. Pure.
import type { Automation, Json, Mistake, Run, Schemas } from '@/api/types'
import type { RunStatus } from '@/components/run-status'
import { unkept, unkeptInWords } from '@/lib/digits'
import { counted } from '@/lib/format'
import type { Drafted } from './working'

export const TRIGGER_TYPES = ['schedule', 'webhook', 'event'] as const
export type TriggerType = (typeof TRIGGER_TYPES)[number]

export type Trigger = { trigger_id?: string; type: TriggerType; config?: Json }
export type Step = Json & { step_id: string; action: string; config?: Json; output_as?: string }

export const BLANK: Json = {
  schema_version: '1.0',
  name: '',
  goal: '',
  inputs: { schema: { type: 'object', additionalProperties: false, properties: {} } },
  triggers: [],
  plan: [{ step_id: 'first', action: '', config: {} }],
}

/** Whether there is enough of a definition to ask what is wrong with it. */
export function isBegun(definition: Json): boolean {
  const plan = definition.plan as Step[] | undefined
  return !!definition.name && Array.isArray(plan) && plan.every(step => !!step?.action)
}

/** How many of the newest runs a row of the list shows. */
const TICKS = 10

/** The newest runs of an automation among these, the oldest first. */
export function healthOf(automation: string, runs: readonly Pick<Run, 'automation_id' | 'status'>[]): RunStatus[] {
  return runs
    .filter(run => run.automation_id === automation)
    .slice(0, TICKS)
    .map(run => run.status)
    .reverse()
}

/** What starts it, in a few words. */
export function startsWhen(automation: Pick<Automation, 'triggers'>): string {
  const words = automation.triggers.map(trigger =>
    trigger.type === 'schedule' ? (trigger.schedule ?? 'on a schedule') : trigger.type === 'webhook' ? 'on a webhook' : 'on an event',
  )
  return words.length === 0 ? 'when somebody runs it' : words.join(' · ')
}

/** The mistakes below a place, with their places from there. */
export function mistakesUnder(mistakes: readonly Mistake[], place: string): Mistake[] {
  return mistakes
    .filter(mistake => mistake.pointer === place || mistake.pointer.startsWith(`${place}/`))
    .map(mistake => ({ ...mistake, pointer: mistake.pointer.slice(place.length) }))
}

/** The places of flags, each once. */
export const placesOf = (flags: readonly Mistake[]): string[] => [...new Set(flags.map(flag => flag.pointer))]

/** The flags of a draft that hold of what became of it: a text that still stands in it, wherever its step is now; else a place that is as it was. */
export function stillFlagged({ definition, flags }: Drafted, now: Json): Mistake[] {
  const texts = new Set(textsOf(now))
  return (flags ?? []).filter(({ pointer }) => {
    const was = valueAt(definition, pointer)
    return typeof was === 'string' ? texts.has(was) : JSON.stringify(was) === JSON.stringify(valueAt(now, pointer))
  })
}

const textsOf = (value: unknown): string[] =>
  typeof value === 'string' ? [value] : value && typeof value === 'object' ? Object.values(value).flatMap(textsOf) : []

const valueAt = (value: unknown, pointer: string): unknown =>
  pointer
    .split('/')
    .slice(1)
    .map(name => name.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((inside, name) => (inside as Json | undefined)?.[name], value)

/** A mistake in one line, with what to try. */
export const told = (mistake: Mistake): string => (mistake.hint ? `${mistake.message}: ${mistake.hint}` : mistake.message)

/** Mistakes as a form shows them. */
export const asErrors = (mistakes: readonly Mistake[]) => mistakes.map(each => ({ pointer: each.pointer, message: told(each) }))

type Planned = Pick<Schemas['PlannedStepView'], 'mode'>

/** What saving means for the steps: how many wait for a person, how many never run. */
export function planInWords(steps: readonly Planned[]): string {
  const [waiting, denied] = (['require_approval', 'deny'] as const).map(mode => steps.filter(step => step.mode === mode).length)
  const words = [
    waiting ? `${counted(waiting, 'step')} will wait for approval` : '',
    denied ? `${counted(denied, 'step')} will be denied` : '',
  ].filter(Boolean)
  return words.length === 0 ? 'Every step runs without asking.' : `${words.join(', ')}.`
}

/** The names that a template of a step may read, most useful first. */
export function namesFor(definition: Json, list: 'plan' | 'on_failure', index: number): string[] {
  const inputs = ((definition.inputs as Json | undefined)?.schema as Json | undefined)?.properties as Json | undefined
  const plan = (definition.plan as Step[] | undefined) ?? []
  const after = ((definition.execution as Json | undefined)?.on_failure as Step[] | undefined) ?? []
  const before = list === 'plan' ? plan.slice(0, index) : [...plan, ...after.slice(0, index)]
  const failed = list === 'on_failure' ? ['run.failed_step_id', 'run.error.code', 'run.error.message'] : []
  return [
    ...Object.keys(inputs ?? {}).map(name => `inputs.${name}`),
    ...before.flatMap(step => (typeof step.output_as === 'string' && step.output_as ? [step.output_as] : [])),
    ...failed,
    ...RUN.map(name => `run.${name}`),
  ]
}

const RUN = [
  'id',
  'started_at',
  'automation_id',
  'automation_name',
  'automation_version',
  'trigger_type',
  'trigger_id',
  'space_id',
  'creator_id',
  'attempt',
]

/** The filters of templates, as they are written, each with what it gives. */
export const FILTERS: readonly (readonly [written: string, gives: string])[] = [
  ["join(', ')", 'the items of a list as one text'],
  ['length', 'how many items, members or characters'],
  ["default('none')", 'another value where there is nothing'],
  ['upper', 'capital letters'],
  ['lower', 'small letters'],
  ['truncate(80)', 'the text, cut at a word'],
  ['tojson', 'the value as JSON'],
  ["date('%d %B', 'UTC')", 'a time in that form and zone'],
  ["replace('a', 'b')", 'the text with one part for another'],
  ['trim', 'the text without white space at its ends'],
  ['slugify', 'letters and digits with dashes between'],
  ['first', 'the first item'],
  ['last', 'the last item'],
  ['sort', 'the list in order'],
  ['reverse', 'the list or text backwards'],
]

export const isTemplate = (value: unknown): boolean => typeof value === 'string' && /\{\{|\{%|\{#/.test(value)

/** Params that cannot be typed as a text: a template in their place needs a field of its own. */
export function holesOf(schema: Json | undefined): string[] {
  const properties = (schema?.properties ?? {}) as Record<string, { type?: unknown }>
  return Object.entries(properties)
    .filter(([, property]) => ['array', 'object', 'boolean'].includes(String(property?.type)))
    .map(([name]) => name)
}

/** The schema of the params, with a text for each that holds a template where a text does not fit. */
export function withHoles(schema: Json | undefined, config: Json): Json {
  const properties = { ...((schema?.properties ?? {}) as Record<string, Json>) }
  for (const name of holesOf(schema)) {
    if (!isTemplate(config[name])) continue
    const { title, description } = properties[name] ?? {}
    properties[name] = { type: 'string', ...(title ? { title } : {}), ...(description ? { description } : {}) }
  }
  // What is missing is told by the server, which knows what a template may become.
  return { ...schema, properties }
}

/** A part of our schema as the form of one value: what it can be written as in two ways is shown in the way it is written. */
export function formOf(schema: Json, part: Json, value: Json): Json {
  const properties = Object.entries((part.properties ?? {}) as Record<string, Json>).map(([name, property]) => [
    name,
    inOneWay(property, value[name]),
  ])
  return { ...part, properties: Object.fromEntries(properties), $defs: schema.$defs }
}

function inOneWay(property: Json, value: unknown): Json {
  const { anyOf, type, ...rest } = property
  const [short] = (anyOf as Json[] | undefined) ?? []
  if (short?.enum && typeof value !== 'object') return { ...rest, ...short }
  if (Array.isArray(type) && type.includes('integer') && typeof value === 'number') {
    const { properties: _, additionalProperties: __, ...number } = rest
    return { ...number, type: 'integer' }
  }
  if (Array.isArray(type) && type.includes('object')) return { ...rest, type: 'object' }
  return property
}

/** The part of our schema that a name leads to. */
export const partOf = (schema: Json | undefined, name: string): Json => ((schema?.$defs as Json | undefined)?.[name] ?? {}) as Json

/** A schema with only these members, or without those. */
export function pick(part: Json, names: readonly string[], isWithout = false): Json {
  const kept = Object.entries((part.properties ?? {}) as Json).filter(([name]) => names.includes(name) !== isWithout)
  const required = ((part.required ?? []) as string[]).filter(name => names.includes(name) !== isWithout)
  return { ...part, properties: Object.fromEntries(kept), required }
}

/** The members of a value that a form edits are replaced; all others stay, and each stays where it was. */
export function merged(value: Json, form: Json, edited: Json): Json {
  const names = Object.keys((form.properties ?? {}) as Json)
  const made: Json = {}
  for (const [name, old] of Object.entries(value)) {
    if (!names.includes(name)) made[name] = old
    else if (name in edited) made[name] = edited[name]
  }
  return { ...made, ...edited }
}

/** A name that no other has: `tell`, `tell_2`, `tell_3`. */
export function unusedName(wanted: string, used: readonly string[]): string {
  const base = wanted.replace(/_\d+$/, '')
  if (!used.includes(base)) return base
  let count = 2
  while (used.includes(`${base}_${count}`)) count += 1
  return `${base}_${count}`
}

export function moved<T>(list: readonly T[], from: number, by: number): T[] {
  const made = [...list]
  const [one] = made.splice(from, 1)
  if (one !== undefined) made.splice(from + by, 0, one)
  return made
}

/** A definition from its text; a sentence where it is none. */
export function parsed(text: string): Json | string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'A definition is a JSON object.'
    const lost = unkept(value)
    return lost === undefined ? (value as Json) : `${unkeptInWords(lost)} Save it with countersign automation apply -f FILE.`
  } catch (cause) {
    return cause instanceof Error ? cause.message : 'This is not JSON.'
  }
}

/** In which line of the text a pointer leads to its value, counted from 1; the deepest part that is there. */
export function lineOf(definition: Json, pointer: string): number {
  const parts = pointer
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  let [value, line] = [definition as unknown, 1]
  for (const part of parts) {
    if (typeof value !== 'object' || value === null) break
    const keys = Object.keys(value)
    const at = keys.indexOf(part)
    if (at < 0) break
    const members = value as Json
    for (const key of keys.slice(0, at)) line += JSON.stringify(members[key], null, 2).split('\n').length
    line += 1
    value = members[part]
  }
  return line
}

/** The command that fires a webhook, to be copied. */
export function curlOf(trigger: Pick<Schemas['TriggerView'], 'fire_url' | 'has_token'>, token = 'cs_hook_…'): string {
  const word = trigger.has_token ? ` -H 'authorization: Bearer ${token}'` : ''
  return `curl ${trigger.fire_url ?? ''}${word} -H 'content-type: application/json' -d '{}'`
}

/** The ids of triggers; those that have none as the server names them. */
export function triggerIds(triggers: readonly Trigger[]): string[] {
  const taken = triggers.flatMap(trigger => trigger.trigger_id ?? [])
  return triggers.map(trigger => {
    const id = trigger.trigger_id ?? unusedName(trigger.type, taken)
    taken.push(id)
    return id
  })
}

/** The triggers that need a secret which signs what they are sent. */
export function signedTriggers(definition: Json): string[] {
  const all = (definition.triggers as Trigger[] | undefined) ?? []
  return triggerIds(all).filter((_, at) => all[at]?.config?.signature === 'standard_webhooks')
}

/** The part of our schema that metadata has a form of: the tags, and the rest as JSON. */
export function metadataPart(part: Json): Json {
  const { tags } = (part.properties ?? {}) as Json
  const more = { type: 'object', description: 'Whatever else helps people to find it, by names of your own. Nothing is decided by it.' }
  return { type: 'object', properties: { ...(tags === undefined ? {} : { tags }), more } }
}

/** Metadata as its form has it: the tags, and whatever else somebody noted as one value. What the server sets stands beside them. */
export function metadataForm({ tags, created_from_nl, ...more }: Json): Json {
  return {
    ...(tags === undefined ? {} : { tags }),
    ...(created_from_nl === undefined ? {} : { created_from_nl }),
    ...(Object.keys(more).length > 0 ? { more } : {}),
  }
}

/** The metadata of such a form. Where a name is on both sides, the field of its own counts. */
export const metadataOf = ({ more, ...named }: Json): Json => ({ ...named, ...(more as Json | undefined), ...named })

/** Every action that a definition names. */
export function actionsOf(definition: Json): string[] {
  const after = ((definition.execution as Json | undefined)?.on_failure as Step[] | undefined) ?? []
  return [...new Set([...((definition.plan as Step[] | undefined) ?? []), ...after].map(step => step.action))]
}

/** The sources of the actions that steps call, each once, in their order. */
export const sourcesOf = (steps: readonly { action: string }[]): string[] => [
  ...new Set(steps.map(step => step.action.split('.')[0] ?? '')),
]
