import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Json } from '@/api/types'
import { actionsOf, type Step } from './model'
import { asGiven, built, missing, STARTERS, sourcesMissing } from './starters'

const KNOWN = [
  'builtin.transform_data',
  'documents.add',
  'documents.fetch',
  'documents.import_folder',
  'documents.search',
  'email.send',
  'files.list',
  'files.read_text',
  'files.write_text',
  'http.get',
  'http.request',
  'notify.send',
]

test('the first six are the shipped examples, and each has a name of its own', () => {
  const first = ['daily-digest', 'build-triage', 'file-added', 'folder-sweep', 'weekly-report', 'weekly-podcast']
  expect(STARTERS.slice(0, 6).map(starter => starter.id)).toEqual(first)
  expect(new Set(STARTERS.map(starter => starter.id)).size).toBe(STARTERS.length)
  expect(new Set(STARTERS.map(starter => asGiven(starter).name)).size).toBe(STARTERS.length)
})

test.each(STARTERS)('$id is complete, and uses only what there is', starter => {
  const definition = built(starter, asGiven(starter))
  expect(JSON.stringify(definition)).not.toMatch(/[⟨⟩]/)
  expect(missing(starter, asGiven(starter))).toEqual([])
  for (const action of actionsOf(definition)) expect(KNOWN).toContain(action)
  const after = (definition.execution as Json | undefined)?.on_failure as Step[] | undefined
  const ids = [...(definition.plan as Step[]), ...(after ?? [])].map(step => step.step_id)
  expect(new Set(ids).size).toBe(ids.length)
  // Every field is used somewhere.
  for (const field of starter.fields) expect(JSON.stringify(starter.definition)).toContain(`⟨${field.name}⟩`)
})

test.each(STARTERS.slice(0, 6))('$id is its file, as long as no field is changed', starter => {
  expect(built(starter, asGiven(starter))).toEqual(JSON.parse(readFileSync(`../examples/automations/${starter.id}.json`, 'utf8')))
})

test('a list keeps its type, and a text inside another is put in its place', () => {
  const starter = STARTERS.find(each => each.id === 'mail-a-file')
  if (!starter) throw new Error('it is gone')
  const definition = built(starter, { ...asGiven(starter), to: 'ada@example.com, bob@example.com ,', path: 'a.md' })
  const plan = definition.plan as Step[]
  expect(plan[1]?.config?.to).toEqual(['ada@example.com', 'bob@example.com'])
  expect(plan[0]?.config).toEqual({ path: 'a.md' })
})

test('a starter says which sources it lacks', () => {
  expect(sourcesMissing(['documents.search', 'documents.fetch', 'notify.send'], ['notify.send'])).toEqual(['documents'])
})
