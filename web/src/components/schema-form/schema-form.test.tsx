import { render, screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import type { Json } from '@/api/types'
import { SchemaForm } from '.'
import { Beneath, Templates, Unread } from './around'
import { whole } from './form'
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
  expect(help(/^extra/)).toMatch(/^Not JSON: /)
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

const vocabulary = {
  names: ['inputs.since', 'found'],
  filters: [
    ['length', 'how many'],
    ['lower', 'small letters'],
  ],
} as const

/** A form of an action's params, in each text of which a template may stand. */
function templated(schema: Json, params: Json) {
  const onChange = vi.fn()
  render(
    <Templates value={vocabulary}>
      <SchemaForm isTemplated schema={schema} params={params} showErrors={false} onChange={onChange} />
    </Templates>,
  )
  return { user: userEvent.setup(), last: () => onChange.mock.lastCall?.[0] as Json }
}

const offered = () => screen.getAllByRole('option').map(option => option.textContent)

test('what a template may use is offered while it is typed, and written with the keyboard', async () => {
  const { user, last } = templated({ properties: { text: { type: 'string' } } }, { text: '' })
  const field = await screen.findByLabelText(/^text/)
  await user.type(field, 'Since {{{{')
  expect(offered()).toEqual(['inputs.since', 'found'])
  const active = () => document.getElementById(field.getAttribute('aria-activedescendant') ?? '')?.textContent
  expect(active()).toBe('inputs.since')
  await user.keyboard('{ArrowDown}')
  expect(active()).toBe('found')
  await user.keyboard('{Enter}')
  expect(last().text).toBe('Since {{ found')
  expect(screen.queryByRole('listbox')).toBeNull()
})

test('filters are offered after a bar until somebody does not want them, and written with a click', async () => {
  const { user, last } = templated({ properties: { text: { type: 'string' } } }, { text: '{{ found' })
  const field = await screen.findByLabelText(/^text/)
  await user.type(field, ' | l')
  expect(offered()).toEqual(['lengthhow many', 'lowersmall letters'])
  await user.keyboard('{Escape}')
  expect(screen.queryByRole('listbox')).toBeNull()
  await user.keyboard('o')
  await user.click(screen.getByRole('option', { name: /^lower/ }))
  expect(last().text).toBe('{{ found | lower')
  expect(document.activeElement).toBe(field)
})

test('a number may be a template, and stays a number otherwise', async () => {
  const { user, last } = templated({ properties: { limit: { type: 'integer' }, at: { type: 'object' } } }, { limit: 5 })
  const field = await screen.findByLabelText(/^limit/)
  await user.type(field, '0')
  expect(last().limit).toBe(50)
  await user.clear(field)
  await user.type(field, '{{{{ f')
  await user.keyboard('{Enter}')
  expect(last().limit).toBe('{{ found')
  await user.type(screen.getByLabelText(/^at/), '{{"a": "{{{{ f')
  expect(screen.getByRole('option').textContent).toBe('found')
})

const ours = {
  type: 'object',
  properties: {
    cron: { type: 'string', 'x-countersign-widget': 'cron' },
    filters: { type: 'object', 'x-countersign-widget': 'filter' },
    budget: { type: 'number', 'x-countersign-widget': 'money', 'x-countersign-currency': 'USD' },
    mapping: { type: 'object', additionalProperties: { type: 'string', 'x-countersign-widget': 'jsonpath' } },
  },
}

function openOurs(params: Json, refused: { pointer: string; message: string }[] = []) {
  const [onChange, unread] = [vi.fn(), vi.fn()]
  render(
    <Unread value={unread}>
      <Beneath value={{ cron: 'every hour' }}>
        <SchemaForm isOurs name="of" schema={ours} params={params} showErrors={false} refused={refused} onChange={onChange} />
      </Beneath>
    </Unread>,
  )
  return { user: userEvent.setup(), last: () => onChange.mock.lastCall?.[0] as Json, unread: () => unread.mock.lastCall }
}

test('our own schemas say what stands at a field', async () => {
  openOurs({ cron: '0 * * * *' })
  const cron = await screen.findByLabelText(/^cron/)
  const described = cron.getAttribute('aria-describedby')?.split(' ') ?? []
  expect(described.map(id => document.getElementById(id)?.textContent)).toContain('every hour')
  expect(screen.getByLabelText(/^budget/).parentElement?.textContent).toBe('USD')
})

test('a filter is an object of JSON, keeps its digits, and tells what is wrong within it', async () => {
  const { user, last, unread } = openOurs({ filters: { 'data.id': 1 } }, [
    { pointer: '/filters/data.id/gt', message: 'it compares with a number' },
  ])
  const field = (await screen.findByLabelText(/^filters/)) as HTMLTextAreaElement
  const help = () => document.getElementById(`${field.id}-help`)?.textContent
  expect(help()).toBe('it compares with a number')
  await user.clear(field)
  await user.type(field, '[[1]')
  expect(help()).toMatch(/^Not a JSON object/)
  await waitFor(() => expect(unread()).toEqual(['of', true]))
  await user.clear(field)
  await user.type(field, '{{"data.id": 9007199254740993}')
  expect(help()).toMatch(/^A browser keeps whole numbers up to/)
  await user.clear(field)
  await user.type(field, '{{"data.id": 7}')
  expect(last().filters).toEqual({ 'data.id': 7 })
  await waitFor(() => expect(unread()).toEqual(['of', false]))
})

test('texts under names of their own are added, renamed and removed', async () => {
  const { user, last, unread } = openOurs({ mapping: { since: '$.from' } }, [{ pointer: '/mapping/since', message: 'no JSONPath' }])
  expect(((await screen.findByLabelText('JSONPath of since')) as HTMLInputElement).value).toBe('$.from')
  expect(screen.getByText('no JSONPath')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Add to mapping' }))
  await user.type(screen.getByLabelText('JSONPath of 2'), '$.to')
  expect(screen.getByText('Each needs a name.')).toBeTruthy()
  await waitFor(() => expect(unread()).toEqual(['of', true]))
  await user.type(screen.getByLabelText('Name 2'), 'until')
  expect(last().mapping).toEqual({ since: '$.from', until: '$.to' })
  await user.click(screen.getByRole('button', { name: 'Remove since' }))
  expect(last().mapping).toEqual({ until: '$.to' })
  await user.click(screen.getByRole('button', { name: 'Remove until' }))
  expect(last().mapping).toBeUndefined()
})

test('a number whose digits would be lost stays what was typed', async () => {
  const { user, last } = open({ properties: { id: { type: 'integer' } } }, {})
  await user.type(await screen.findByLabelText(/^id/), '9007199254740993')
  expect(last().id).toBe('9007199254740993')
})
