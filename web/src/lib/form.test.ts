import { expect, test } from 'vitest'
import { fieldsOf, read, shown } from './form'

const schema = {
  type: 'object',
  required: ['path', 'count'],
  properties: {
    path: { type: 'string', description: 'where' },
    text: { type: 'string', maxLength: 524_288 },
    count: { type: 'integer' },
    ratio: { type: 'number' },
    force: { type: 'boolean' },
    method: { enum: ['squash', 'merge'] },
    tags: { type: 'array' },
  },
}

test('an edited call keeps the type of every param', () => {
  const params = { path: 'a', count: 3, force: false, tags: ['x', 1], method: 'squash', unknown: { deep: true } }
  const fields = fieldsOf(schema, params)
  expect(fields.map(field => [field.name, field.kind])).toEqual([
    ['path', 'text'],
    ['text', 'lines'],
    ['count', 'integer'],
    ['ratio', 'number'],
    ['force', 'boolean'],
    ['method', 'choice'],
    ['tags', 'json'],
    ['unknown', 'json'],
  ])
  const texts = Object.fromEntries(fields.map(field => [field.name, shown(field, (params as Record<string, unknown>)[field.name])]))
  expect(read(fields, texts, params)).toEqual({ params, errors: {} })
  expect(read(fields, { ...texts, count: '12', path: '007' }, params).params).toMatchObject({ count: 12, path: '007' })
})

test('what is missing or of another type is said at its field', () => {
  const fields = fieldsOf(schema, {})
  expect(read(fields, { count: '1.5', ratio: 'many', tags: '[', path: '' }, {}).errors).toEqual({
    count: 'A whole number',
    ratio: 'A number',
    tags: 'Not JSON',
  })
  expect(read(fields, { path: 'a' }, {}).errors).toEqual({ count: 'Required' })
})

test('a value that does not fit its type is edited as it is', () => {
  const [path] = fieldsOf(schema, { path: 5 })
  expect(path?.kind).toBe('json')
  // An empty text that was there stays; one that was not there is left out.
  const fields = fieldsOf({ properties: { a: { type: 'string' }, b: { type: 'string' } } }, { a: '' })
  expect(read(fields, { a: '', b: '' }, { a: '' }).params).toEqual({ a: '' })
})
