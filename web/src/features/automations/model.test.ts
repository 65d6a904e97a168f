import { expect, test } from 'vitest'
import { firingInWords } from './firings'
import {
  BLANK,
  curlOf,
  formOf,
  healthOf,
  holesOf,
  isBegun,
  lineOf,
  merged,
  metadataForm,
  metadataOf,
  metadataPart,
  mistakesUnder,
  moved,
  namesFor,
  parsed,
  pick,
  planInWords,
  signedTriggers,
  sourcesOf,
  startsWhen,
  stillFlagged,
  unusedName,
  withHoles,
} from './model'

test('the health of an automation is its newest runs, the oldest first', () => {
  const runs = Array.from({ length: 12 }, (_, at) => ({
    automation_id: at % 12 === 11 ? 'b' : 'a',
    status: at === 0 ? ('failed' as const) : ('succeeded' as const),
  }))
  expect(healthOf('a', runs)).toHaveLength(10)
  expect(healthOf('a', runs).at(-1)).toBe('failed')
  expect(healthOf('c', runs)).toEqual([])
})

test('mistakes stand at their fields', () => {
  const all = ['/plan/1/config/to', '/plan/1', '/plan/10', ''].map(pointer => ({ pointer, code: 'x', message: 'm' }))
  expect(mistakesUnder(all, '/plan/1').map(each => each.pointer)).toEqual(['/config/to', ''])
})

test('a plan says what will wait and what is denied', () => {
  expect(planInWords([{ mode: 'allow' }])).toBe('Every step runs without asking.')
  expect(planInWords([{ mode: 'require_approval' }, { mode: 'require_approval' }, { mode: 'deny' }])).toBe(
    '2 steps will wait for approval, 1 step will be denied.',
  )
})

test('a template reads inputs and what came before it, and the failure only afterwards', () => {
  const definition = {
    inputs: { schema: { properties: { since: {} } } },
    plan: [
      { step_id: 'a', action: 'x', output_as: 'found' },
      { step_id: 'b', action: 'x' },
    ],
    execution: { on_failure: [{ step_id: 'c', action: 'x' }] },
  }
  expect(namesFor(definition, 'plan', 0).slice(0, 2)).toEqual(['inputs.since', 'run.id'])
  expect(namesFor(definition, 'plan', 1).slice(0, 3)).toEqual(['inputs.since', 'found', 'run.id'])
  expect(namesFor(definition, 'on_failure', 0)).toContain('run.error.message')
})

test('a template where no text fits has a field of its own', () => {
  const schema = { properties: { to: { type: 'array', description: 'Whom.' }, text: { type: 'string' }, deep: { type: 'boolean' } } }
  expect(holesOf(schema)).toEqual(['to', 'deep'])
  const made = withHoles(schema, { to: '{{ inputs.to }}', deep: true }) as typeof schema
  expect(made.properties.to).toEqual({ type: 'string', description: 'Whom.' })
  expect(made.properties.deep).toEqual({ type: 'boolean' })
})

test('what can be written in two ways is shown as it is written', () => {
  const part = {
    properties: {
      catch_up: { description: 'd', anyOf: [{ enum: ['none', 'last'] }, { type: 'object' }] },
      max: { type: ['integer', 'object'], properties: { limit: {} } },
    },
  }
  const short = formOf({ $defs: { a: {} } }, part, { max: 5 }) as { $defs: object; properties: Record<string, object> }
  expect(short.properties).toEqual({ catch_up: { description: 'd', enum: ['none', 'last'] }, max: { type: 'integer' } })
  expect(short.$defs).toEqual({ a: {} })
  const long = formOf({}, part, { catch_up: { all: {} }, max: { limit: 5 } }) as typeof short
  expect(long.properties).toEqual({ catch_up: part.properties.catch_up, max: { type: 'object', properties: { limit: {} } } })
})

test('a form replaces what it edits, and keeps the rest', () => {
  const part = { required: ['a', 'c'], properties: { a: {}, b: {}, c: {} } }
  expect(pick(part, ['a', 'b'])).toEqual({ required: ['a'], properties: { a: {}, b: {} } })
  expect(pick(part, ['a', 'b'], true)).toEqual({ required: ['c'], properties: { c: {} } })
  expect(merged({ a: 1, c: 3 }, pick(part, ['a', 'b']), { b: 2 })).toEqual({ c: 3, b: 2 })
  // A diff shows what was changed, and not where it was moved.
  expect(JSON.stringify(merged({ a: 1, c: 3 }, pick(part, ['a', 'b']), { b: 2, a: 5 }))).toBe('{"a":5,"c":3,"b":2}')
})

test('lists are rearranged, and names stay apart', () => {
  expect(moved(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c'])
  expect(moved(['a', 'b', 'c'], 2, -1)).toEqual(['a', 'c', 'b'])
  expect(unusedName('tell', ['tell', 'tell_2'])).toBe('tell_3')
  expect(unusedName('tell_2', ['look'])).toBe('tell')
})

test('a text that is no definition says why', () => {
  expect(parsed('{"name": "a"}')).toEqual({ name: 'a' })
  expect(parsed('[]')).toBe('A definition is a JSON object.')
  expect(typeof parsed('{')).toBe('string')
})

test('a text with a number that a browser cannot keep is no definition here', () => {
  const text = '{"triggers": [{"type": "event", "config": {"filters": {"data.id": 9007199254740993}}}]}'
  expect(parsed(text)).toMatch(/^A browser keeps whole numbers up to .* countersign automation apply -f FILE\.$/)
  expect(parsed('{"limit": 9007199254740991}')).toEqual({ limit: 9007199254740991 })
})

test('metadata is tags and the rest, and nothing of it is lost', () => {
  const metadata = { tags: ['a'], created_from_nl: true, owner: 'ada', more: 1 }
  const form = metadataForm(metadata)
  expect(form).toEqual({ tags: ['a'], created_from_nl: true, more: { owner: 'ada', more: 1 } })
  expect(metadataOf(form)).toEqual(metadata)
  expect(metadataOf({ tags: ['b'], more: { tags: ['c'], owner: 'bo' } })).toEqual({ tags: ['b'], owner: 'bo' })
  expect(metadataForm({})).toEqual({})
  expect(metadataOf({})).toEqual({})
  expect(Object.keys(metadataPart({ properties: { tags: {}, created_from_nl: {} } }).properties as object)).toEqual(['tags', 'more'])
})

test('a pointer leads to its line', () => {
  const definition = { name: 'a', triggers: [], plan: [{ step_id: 'x', config: { to: ['a', 'b'], text: 't' } }] }
  const lines = JSON.stringify(definition, null, 2).split('\n')
  const at = (pointer: string) => lines[lineOf(definition, pointer) - 1]?.trim()
  expect(at('/name')).toBe('"name": "a",')
  expect(at('/plan')).toBe('"plan": [')
  expect(at('/plan/0/config/text')).toBe('"text": "t"')
  expect(at('/plan/0/config/to/1')).toBe('"b"')
  expect(at('/plan/0/config/nowhere')).toBe('"config": {')
  expect(at('')).toBe('{')
})

test('a webhook has a command, with its token only where it has one', () => {
  const url = 'http://127.0.0.1:7117/api/v1/automations/aut_1/fire'
  expect(curlOf({ fire_url: url, has_token: true }, 'cs_hook_x')).toContain("-H 'authorization: Bearer cs_hook_x'")
  expect(curlOf({ fire_url: url, has_token: false })).not.toContain('authorization')
})

test('webhooks that sign are named as the server names them', () => {
  const hook = { type: 'webhook', config: { signature: 'standard_webhooks' } }
  expect(signedTriggers({ triggers: [{ type: 'schedule' }, hook, { ...hook, trigger_id: 'ci' }, hook] })).toEqual([
    'webhook',
    'ci',
    'webhook_2',
  ])
  expect(signedTriggers({})).toEqual([])
})

test('what starts it, and what did not run, is said in words', () => {
  expect(startsWhen({ triggers: [] })).toBe('when somebody runs it')
  expect(firingInWords({ outcome: 'dropped', reason: 'already_running', count: 1, trigger_id: null })).toBe(
    'Did not run: a run had not ended yet.',
  )
  expect(firingInWords({ outcome: 'skipped', reason: 'paused', count: 3, trigger_id: 'a' })).toBe(
    'Did not run, 3 times: the automation was paused.',
  )
})

test('the sources of a plan are named once each', () => {
  expect(sourcesOf([{ action: 'files.list' }, { action: 'notify.send' }, { action: 'files.write_text' }])).toEqual(['files', 'notify'])
})

test('a blank definition is not told its mistakes before anything is typed', () => {
  expect(isBegun(BLANK)).toBe(false)
  expect(isBegun({ ...BLANK, name: 'a' })).toBe(false)
  expect(isBegun({ ...BLANK, name: 'a', plan: [{ step_id: 'a', action: 'files.list' }] })).toBe(true)
})

test('what was flagged of a draft must be read while it stands in what became of it', () => {
  const step = (id: string, body: string) => ({ step_id: id, action: 'notify.send', config: { body } })
  const definition = { plan: [step('a', '{{ x }}'), step('b', '{{ y }}')], triggers: [] }
  const flag = (pointer: string) => ({ pointer, code: 'any', message: 'any' })
  const places = ['/plan/0/config/body', '/plan/1/config/body', '/plan/1/action', '/execution/on_failure']
  const draft = { id: 'drf_1', definition, flags: places.map(flag) }
  const left = (now: object) => stillFlagged(draft, now as typeof definition).map(each => each.pointer)
  expect(left(definition)).toEqual(places)
  expect(left({ ...definition, plan: [step('a', 'mine'), step('b', '{{ y }}')] })).toEqual(places.slice(1))
  // A step of the person's own comes first: what they have not read is elsewhere now.
  expect(left({ ...definition, plan: [step('new', 'mine'), ...definition.plan] })).toEqual(places)
  expect(left({ plan: [step('a', 'mine')], execution: { on_failure: [] } })).toEqual(['/plan/1/action'])
})
