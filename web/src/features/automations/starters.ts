// Complete automations to begin with: six of the shipped examples, then small ones. A text in ⟨ ⟩ is a field that a person fills in; a text
// that is nothing but a field keeps the type of what was filled in. Each is checked by the server like any other definition.

import type { Json } from '@/api/types'
import triage from '../../../../examples/automations/build-triage.json'
import digest from '../../../../examples/automations/daily-digest.json'
import fileAdded from '../../../../examples/automations/file-added.json'
import sweep from '../../../../examples/automations/folder-sweep.json'
import podcast from '../../../../examples/automations/weekly-podcast.json'
import report from '../../../../examples/automations/weekly-report.json'

export type Field = {
  name: string
  label: string
  help?: string
  /** A list is typed with commas. */
  kind?: 'text' | 'list' | 'timezone'
  value: string
}
export type Starter = { id: string; about: string; fields: readonly Field[]; definition: Json }

const zone: Field = { name: 'zone', label: 'Time zone', kind: 'timezone', value: 'UTC' }
const cron = (value: string, help: string): Field => ({ name: 'cron', label: 'When, as cron', help, value })
const mail: Field = { name: 'to', label: 'To', help: 'Addresses, with commas between them', kind: 'list', value: 'team@example.com' }
const page: Field = { name: 'url', label: 'Address', help: 'On a host that the operator allows', value: 'https://example.com/health' }

const scheduled = { trigger_id: 'times', type: 'schedule', config: { cron: '⟨cron⟩', timezone: '⟨zone⟩' } }
const failing = (what: string): Json => ({
  on_failure: [
    {
      step_id: 'alarm',
      action: 'notify.send',
      config: { title: `${what} failed`, body: '{{ run.failed_step_id }}: {{ run.error.message }}' },
    },
  ],
})
const inputs = (properties: Json, required: readonly string[] = []): Json => ({
  schema: { type: 'object', additionalProperties: false, required, properties },
})
const text = (maxLength: number): Json => ({ type: 'string', maxLength })
const tell = (title: string, body: string, more: Json = {}): Json => ({
  step_id: 'tell',
  action: 'notify.send',
  ...more,
  config: { title, body },
})
const starter = (id: string, about: string, fields: readonly Field[], name: string, definition: Json, tag: string): Starter => ({
  id,
  about,
  fields: [{ name: 'name', label: 'Name', value: name }, ...fields],
  definition: { schema_version: '1.0', name: '⟨name⟩', goal: about, ...definition, metadata: { tags: [tag] } },
})

/** A shipped example, with fields in place of what stands at these pointers. What stands there is what the fields begin with. */
function example(id: string, shipped: { name: string; goal: string }, fields: readonly (Omit<Field, 'value'> & { at: string })[]): Starter {
  const definition = structuredClone(shipped) as unknown as Json
  const filled = [{ name: 'name', label: 'Name', at: '/name' }, ...fields].map(({ at, ...field }) => {
    const path = at.split('/').slice(1)
    const last = path.pop() ?? ''
    const parent = path.reduce((value, key) => value[key] as Json, definition)
    const value = parent[last]
    parent[last] = `⟨${field.name}⟩`
    return { ...field, value: Array.isArray(value) ? value.join(', ') : String(value) }
  })
  return { id, about: shipped.goal, fields: filled, definition }
}

const when = { name: 'cron', label: 'When, as cron', at: '/triggers/0/config/cron' }
const where = { name: 'zone', label: 'Time zone', kind: 'timezone', at: '/triggers/0/config/timezone' } as const
const tags = {
  name: 'tags',
  label: 'Tags',
  kind: 'list',
  help: 'With commas between them',
  at: '/inputs/schema/properties/tags/default',
} as const

export const STARTERS: readonly Starter[] = [
  example('daily-digest', digest, [when, where, tags]),
  example('build-triage', triage, [
    { name: 'tags', label: 'Tags', kind: 'list', help: 'With commas between them', at: '/plan/0/config/tags' },
  ]),
  example('file-added', fileAdded, [
    { name: 'tag', label: 'Tag', at: '/triggers/0/config/filters/data.tags' },
    { name: 'to', label: 'To', help: 'Addresses, with commas between them', kind: 'list', at: '/plan/1/config/to' },
  ]),
  example('folder-sweep', sweep, [when, where, { name: 'folder', label: 'Folder', at: '/inputs/schema/properties/folder/default' }, tags]),
  example('weekly-report', report, [when, where]),
  example('weekly-podcast', podcast, [
    when,
    where,
    { name: 'url', label: 'Address of the speech service', help: 'On a host that the operator allows', at: '/plan/3/config/url' },
  ]),
  starter(
    'morning-note',
    'Says each working morning how many files are in a folder of the workspace.',
    [cron('0 9 * * 1-5', 'Weekdays at nine'), zone, { name: 'folder', label: 'Folder', value: 'reports' }],
    'Morning note',
    {
      triggers: [scheduled],
      plan: [
        { step_id: 'look', action: 'files.list', config: { path: '⟨folder⟩' }, output_as: 'found' },
        tell('Good morning', 'Files in ⟨folder⟩: {{ found.entries | length }}'),
      ],
    },
    'report',
  ),
  starter(
    'mail-a-file',
    'Sends a file of the workspace by mail, once a week.',
    [cron('0 8 * * 1', 'Mondays at eight'), zone, { name: 'path', label: 'File', value: 'reports/weekly.md' }, mail],
    'Weekly report by mail',
    {
      triggers: [scheduled],
      plan: [
        { step_id: 'read', action: 'files.read_text', config: { path: '⟨path⟩' }, output_as: 'report' },
        {
          step_id: 'send',
          action: 'email.send',
          config: { to: '⟨to⟩', subject: "Report of {{ run.started_at | date('%d %B') }}", text: '{{ report.text }}' },
        },
      ],
      execution: failing('The weekly report'),
    },
    'report',
  ),
  starter(
    'watch-a-page',
    'Asks a page every quarter of an hour, and tells when it does not answer as it should.',
    [cron('*/15 * * * *', 'Every quarter of an hour'), zone, page],
    'Watch a page',
    {
      triggers: [scheduled],
      plan: [
        { step_id: 'ask', action: 'http.get', config: { url: '⟨url⟩' }, output_as: 'page' },
        tell('A page does not answer', '{{ page.url }} answered {{ page.status }}', { when: '{{ page.status != 200 }}' }),
      ],
      execution: failing('Watching a page'),
    },
    'watch',
  ),
  starter(
    'keep-a-page',
    'Keeps what a page says each day, in a file of its own.',
    [cron('30 6 * * *', 'Every day at half past six'), zone, page, { name: 'folder', label: 'Folder', value: 'pages' }],
    'Keep a page',
    {
      triggers: [scheduled],
      plan: [
        { step_id: 'ask', action: 'http.get', config: { url: '⟨url⟩' }, output_as: 'page' },
        {
          step_id: 'keep',
          action: 'files.write_text',
          when: "{{ page.encoding == 'utf8' }}",
          config: { path: "⟨folder⟩/{{ run.started_at | date('%Y-%m-%d') }}.txt", text: '{{ page.body }}' },
        },
      ],
      execution: failing('Keeping a page'),
    },
    'watch',
  ),
  starter(
    'hook-to-people',
    'Tells the people of the org what a webhook says.',
    [],
    'Tell what a webhook says',
    {
      inputs: inputs({ title: text(200), text: text(2_000) }, ['title', 'text']),
      triggers: [{ trigger_id: 'hook', type: 'webhook' }],
      plan: [tell('{{ inputs.title }}', '{{ inputs.text }}')],
    },
    'webhook',
  ),
  starter(
    'hook-to-file',
    'Keeps what a webhook says as a note in the workspace.',
    [{ name: 'folder', label: 'Folder', value: 'notes' }],
    'Keep notes of a webhook',
    {
      inputs: inputs({ title: text(120), text: text(20_000) }, ['title', 'text']),
      triggers: [{ trigger_id: 'hook', type: 'webhook', config: { rate_limit: { max: 30, per_seconds: 60 } } }],
      plan: [
        {
          step_id: 'keep',
          action: 'files.write_text',
          config: { path: '⟨folder⟩/{{ run.id }}.md', text: '# {{ inputs.title }}\n\n{{ inputs.text }}\n' },
        },
      ],
      execution: { concurrency: 'queue' },
    },
    'webhook',
  ),
  starter(
    'hook-onwards',
    'Sends what a webhook says to another address, after a person has read it.',
    [{ name: 'url', label: 'Address', help: 'On a host that the operator allows', value: 'https://example.com/incidents' }],
    'Pass a webhook on',
    {
      inputs: inputs({ title: text(200), url: { type: 'string', format: 'uri' } }, ['title']),
      triggers: [{ trigger_id: 'hook', type: 'webhook' }],
      plan: [
        {
          step_id: 'send',
          action: 'http.request',
          on_interrupted: 'ask_human',
          config: {
            method: 'POST',
            url: '⟨url⟩',
            headers: { 'content-type': 'application/json' },
            body: '{{ inputs | tojson }}',
          },
        },
      ],
      execution: { concurrency: 'queue', ...failing('Passing a webhook on') },
    },
    'webhook',
  ),
  starter(
    'failed-runs',
    'Tells people when a run of any other automation fails.',
    [],
    'Tell of failed runs',
    {
      inputs: inputs({ automation_id: text(64), run_id: text(64) }, ['automation_id', 'run_id']),
      triggers: [
        {
          trigger_id: 'failed',
          type: 'event',
          config: {
            event_type: 'automation.run.failed',
            input_mapping: { automation_id: '$.data.automation_id', run_id: '$.data.run_id' },
          },
        },
      ],
      plan: [tell('A run failed', 'Run {{ inputs.run_id }} of {{ inputs.automation_id }} failed.')],
      execution: { chain_policy: 'avoid_loop', concurrency: 'queue' },
    },
    'alarm',
  ),
  starter(
    'drifted-actions',
    'Tells people when the definition of an action changed since somebody reviewed it.',
    [],
    'Tell of drift',
    {
      inputs: inputs({ action: text(200) }, ['action']),
      triggers: [
        { trigger_id: 'drifted', type: 'event', config: { event_type: 'action.drifted', input_mapping: { action: '$.subject' } } },
      ],
      plan: [tell('A definition changed', '{{ inputs.action }} waits for a review.')],
      execution: { concurrency: 'queue' },
    },
    'alarm',
  ),
  starter(
    'source-away',
    'Sends a mail when a source does not answer any more.',
    [mail],
    'Mail when a source is away',
    {
      inputs: inputs({ source: text(80) }, ['source']),
      triggers: [
        {
          trigger_id: 'away',
          type: 'event',
          config: { event_type: 'source.unavailable', input_mapping: { source: '$.data.source' }, debounce_seconds: 60 },
        },
      ],
      plan: [
        {
          step_id: 'send',
          action: 'email.send',
          config: { to: '⟨to⟩', subject: '{{ inputs.source }} does not answer', text: 'The source {{ inputs.source }} does not answer.' },
        },
      ],
      execution: failing('The mail about a source'),
    },
    'alarm',
  ),
]

export type Filled = Record<string, string>

/** What each field begins with. */
export const asGiven = (starter: Starter): Filled => Object.fromEntries(starter.fields.map(field => [field.name, field.value]))

/** The fields that are empty. */
export const missing = (starter: Starter, filled: Filled): Field[] => starter.fields.filter(field => !filled[field.name]?.trim())

/** The definition with what was filled in. */
export function built(starter: Starter, filled: Filled): Json {
  const filledIn = (name: string): unknown => {
    const given = (filled[name] ?? '').trim()
    const isList = starter.fields.find(field => field.name === name)?.kind === 'list'
    return isList
      ? given
          .split(',')
          .map(each => each.trim())
          .filter(Boolean)
      : given
  }
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(Object.entries(value).map(([name, next]) => [name, walk(next)]))
    if (typeof value !== 'string') return value
    const [, only] = /^⟨(\w+)⟩$/.exec(value) ?? []
    return only ? filledIn(only) : value.replace(/⟨(\w+)⟩/g, (_, name: string) => String(filledIn(name)))
  }
  return walk(starter.definition) as Json
}

/** The sources that a starter needs and that are not there, by its actions. */
export function sourcesMissing(actions: readonly string[], known: readonly string[]): string[] {
  const absent = actions.filter(action => !known.includes(action)).map(action => action.split('.')[0] ?? action)
  return [...new Set(absent)]
}
