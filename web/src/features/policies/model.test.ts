import { expect, test } from 'vitest'
import type { Schemas } from '@/api/types'
import { budgetsOf, giveCommand, kindOf, modesIn, modesText, offsetOf, ruleText, scopeOf, setOf, steady } from './model'

test('an error leads to its set and to its place in the text', () => {
  expect(setOf({ pointer: '/abac', message: '' })).toBe('abac')
  expect(setOf({ pointer: '', message: '' })).toBeUndefined()
  const text = 'forbid (\n  principal\n)'
  expect(text.slice(offsetOf(text, 2, 3))).toBe('principal\n)')
  // A place after the end of a line, or of the text, is its end.
  expect(offsetOf(text, 2, 99)).toBe(20)
  expect(offsetOf(text, 9, 1)).toBe(text.length)
})

test('a change is held, denied or loosened', () => {
  for (const [before, after, kind] of [
    ['runs', 'asks', 'held'],
    ['runs', 'denied', 'denied'],
    ['asks', 'denied', 'denied'],
    ['denied', 'asks', 'loosened'],
    ['asks', 'runs', 'loosened'],
  ] as const)
    expect(kindOf({ before, after })).toBe(kind)
})

test('proposed modes stand in the address, and come back from it', () => {
  const modes = modesIn('files.write_text:deny,http.get:allow,nonsense,x:never,:deny')
  expect(modes).toEqual([
    { action: 'files.write_text', mode: 'deny' },
    { action: 'http.get', mode: 'allow' },
  ])
  expect(modesText(modes)).toBe('files.write_text:deny,http.get:allow')
  expect(modesIn(undefined)).toEqual([])
  expect(modesText([])).toBeUndefined()
})

test('a rule is shown as it is written', () => {
  expect(ruleText('org', 'files.write_text', 'deny', true)).toBe('org: files.write_text → deny, locked')
  expect(ruleText('org', 'files.write_text', undefined, true)).toBe('org: files.write_text → not set')
})

test('a grant has a bar for its calls and one for its sum', () => {
  const grant = { calls_max: 5, calls_used: 2, sum_max: { of: '/amount', max: '500', per_seconds: 86_400, spent: '120.5' } }
  expect(budgetsOf(grant as Schemas['GrantView'])).toEqual([
    { name: 'calls', used: 2, most: 5, text: '2 of 5 calls' },
    { name: '/amount', used: 120.5, most: 500, text: '120.5 of 500 /amount in 1 d' },
  ])
  expect(budgetsOf({ calls_max: null, calls_used: 7 } as Schemas['GrantView'])).toEqual([])
})

test('rows stay, what comes above waits, and what comes below is added', () => {
  expect(steady(undefined, ['b', 'a'])).toEqual({ rows: ['b', 'a'], fresh: 0 })
  expect(steady(['b', 'a'], ['c', 'b', 'a'])).toEqual({ rows: ['b', 'a'], fresh: 1 })
  expect(steady(['c', 'b'], ['c', 'b', 'a'])).toEqual({ rows: ['c', 'b', 'a'], fresh: 0 })
  // What has left the list keeps its row.
  expect(steady(['c', 'b'], ['c'])).toEqual({ rows: ['c', 'b'], fresh: 0 })
})

test('a command can be pasted into a shell', () => {
  expect(
    giveCommand({
      covers: 'files.*',
      scope: 'org',
      space_id: 'spc_1',
      calls_max: 4,
      expires_in: '24h',
      sum_max: { of: '/a', max: '5', per: '1h' },
    }),
  ).toBe("countersign grant give 'files.*' --org --space spc_1 --calls 4 --sum-max 5 --of /a --per 1h --expires 24h")
})

test('a scope has a kind and an id', () => {
  expect(scopeOf('session:ses_1')).toEqual({ kind: 'session', id: 'ses_1' })
  expect(scopeOf('org')).toEqual({ kind: 'org', id: '' })
})
