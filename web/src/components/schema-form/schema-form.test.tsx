import { render, screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import type { Json } from '@/api/types'
import { SchemaForm, whole } from '.'
import { shapeOf } from './shape'
import { validator } from './validator'

function open(schema: Json, params: Json, more: { showErrors?: boolean; refused?: { pointer: string; message: string }[] } = {}) {
  const [onChange, onChecked] = [vi.fn(), vi.fn()]
  render(
    <SchemaForm
      schema={schema}
      params={params}
      showErrors={more.showErrors ?? false}
      refused={more.refused}
      {...{ onChange, onChecked }}
    />,
  )
  return {
    user: userEvent.setup(),
    last: () => onChange.mock.lastCall?.[0] as Json,
    checked: () => onChecked.mock.lastCall?.[0] as boolean,
    onChange,
  }
}

const schema = {
  type: 'object',
  required: ['to', 'amount'],
  properties: {
    to: { type: 'string', title: 'Whom\u202e', description: 'A <b>name</b>' },
    amount: { type: 'number', maximum: 100 },
    urgent: { type: 'boolean', default: true },
    kind: { enum: ['refund', 'gift'] },
    tags: { type: 'array', items: { type: 'string' } },
    address: { type: 'object', properties: { city: { type: 'string' } } },
    extra: {},
    way: {
      oneOf: [
        { title: 'Card', type: 'object', properties: { card: { type: 'string' } }, required: ['card'] },
        { title: 'Cash', type: 'object', properties: { cash: { type: 'boolean' } }, required: ['cash'] },
      ],
    },
  },
  if: { properties: { kind: { const: 'gift' } }, required: ['kind'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { properties: { card_text: { type: 'string' } } },
}
const params = {
  to: 'Ada',
  amount: 12.5,
  tags: ['a', 'b'],
  address: { city: 'Bern' },
  extra: { deep: [1, null] },
  way: { cash: true },
  own: 7,
}

test('what is not touched stays as it is, and what is edited keeps its type', async () => {
  const { user, last, checked, onChange } = open(schema, params)
  const amount = await screen.findByLabelText(/^amount/)
  expect(onChange).not.toHaveBeenCalled()
  await user.clear(amount)
  await user.type(amount, '40.50')
  expect(last()).toEqual({ ...params, amount: 40.5 })
  expect((amount as HTMLInputElement).value).toBe('40.50')
  await user.clear(screen.getByLabelText(/^own/))
  await user.type(screen.getByLabelText(/^own/), '8')
  await user.type(screen.getByLabelText(/^city/), 'e')
  await user.selectOptions(screen.getByLabelText(/^urgent/), 'false')
  expect(last()).toEqual({ ...params, amount: 40.5, own: 8, address: { city: 'Berne' }, urgent: false })
  await user.click(screen.getByRole('button', { name: 'Remove: 1' }))
  expect(last().tags).toEqual(['b'])
  expect(checked()).toBe(true)
})

test('a schema’s words are text, and show what they hide', async () => {
  open(schema, params)
  expect((await screen.findByLabelText(/Whom\\u\{202e\}/)).id).toBe('param_to')
  expect(screen.getByText('A <b>name</b>')).toBeTruthy()
})

test('a branch of the schema appears when it applies', async () => {
  const { user } = open(schema, params)
  await screen.findByLabelText(/^amount/)
  expect(screen.queryByLabelText(/^card_text/)).toBeNull()
  await user.selectOptions(screen.getByLabelText(/^kind/), 'gift')
  expect(await screen.findByLabelText(/^card_text/)).toBeTruthy()
})

test('what is wrong stands at its field, and what is no JSON is not sent', async () => {
  const { user, checked } = open(
    schema,
    { ...params, amount: 500 },
    { showErrors: true, refused: [{ pointer: '/address/city', message: 'no such city' }] },
  )
  await screen.findByLabelText(/^amount/)
  const help = (name: RegExp) => document.getElementById(`${screen.getByLabelText(name).id}-help`)?.textContent
  expect(help(/^amount/)).toMatch(/100/)
  expect(help(/^city/)).toBe('no such city')
  expect(checked()).toBe(false)
  await user.clear(screen.getByLabelText(/^amount/))
  await waitFor(() => expect(help(/^amount/)).toBe('Required'))
  await user.type(screen.getByLabelText(/^amount/), '5')
  await waitFor(() => expect(checked()).toBe(true))
  await user.type(screen.getByLabelText(/^extra/), 'x')
  expect(help(/^extra/)).toBe('Not JSON')
  await waitFor(() => expect(checked()).toBe(false))
})

test('a schema that no form can be made of is edited as JSON', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  const { user, last } = open({ type: 'object', properties: { a: { $ref: '#/$defs/missing' } } }, { a: 1 })
  const box = await screen.findByRole('textbox')
  await user.clear(box)
  await user.type(box, '{{"a": 2}')
  expect(last()).toEqual({ a: 2 })
})

test('only what has a form gets fields', () => {
  expect(shapeOf(whole(schema, params), whole(schema, params))).toMatchObject({
    way: { cash: { 'ui:widget': 'yesno' }, card: {} },
    to: {},
    extra: { 'ui:field': 'json' },
    tags: { items: {} },
    address: { city: {} },
  })
  for (const node of [
    {},
    { type: ['string', 'number'] },
    { type: 'object' },
    { type: 'array' },
    { enum: [{}] },
    { $ref: 'https://evil.example/x' },
  ])
    expect(shapeOf(node as never, {}), JSON.stringify(node)).toEqual({ 'ui:field': 'json' })
})

test('nothing is evaluated, and the cause is told once', () => {
  const { errors } = validator.validateFormData({ amount: 'x' }, schema as never)
  expect(errors.map(error => [error.property, error.name])).toEqual([
    ['.to', 'required'],
    ['.amount', 'type'],
  ])
})
