import { expect, test } from 'vitest'
import { hasInputs, inputsSchema, isSame } from './inputs'

test('an input with a default need not be given, and says what it gets', () => {
  const schema = {
    type: 'object',
    required: ['since', 'team'],
    properties: {
      since: { type: 'string', default: '$last_fired_at' },
      team: { type: 'string' },
      tags: { type: 'array', description: 'Of files.', default: ['a'] },
    },
  }
  const form = inputsSchema({ inputs: { schema } }) as {
    required: string[]
    properties: Record<string, { description?: string; default?: unknown }>
  }
  expect(form.required).toEqual(['team'])
  expect(form.properties.since).toEqual({ type: 'string', description: 'Not given: $last_fired_at' })
  expect(form.properties.tags?.description).toBe('Of files. Not given: ["a"]')
})

test('a definition without inputs asks for nothing', () => {
  expect(hasInputs(inputsSchema({ inputs: { schema: { type: 'object', additionalProperties: false } } }))).toBe(false)
  expect(hasInputs(inputsSchema({ inputs: { schema: { type: 'object', properties: { a: {} }, additionalProperties: false } } }))).toBe(true)
})

test('inputs are the same whatever the order of their members, and others are not', () => {
  expect(isSame({ a: 1, b: { c: [1, 2], d: null } }, { b: { d: null, c: [1, 2] }, a: 1 })).toBe(true)
  expect(isSame({}, null)).toBe(true)
  expect(isSame({ a: [1, 2] }, { a: [2, 1] })).toBe(false)
  expect(isSame({ a: '[redacted]', b: 2 }, { a: '[redacted]', b: 1 })).toBe(false)
})
