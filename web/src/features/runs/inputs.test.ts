import { expect, test } from 'vitest'
import { hasInputs, inputsSchema } from './inputs'

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
