import { expect, test } from 'vitest'
import { completionAt, pieces, written } from './completion'

const vocabulary = {
  names: ['inputs.since', 'inputs.title', 'found', 'run.id'],
  filters: [
    ['length', 'how many'],
    ['lower', 'small letters'],
    ["default('none')", 'another value'],
  ],
} as const

/** What is offered where the bar `¦` stands. */
function offered(marked: string): string[] {
  const cursor = marked.indexOf('¦')
  return completionAt(marked.replace('¦', ''), cursor, vocabulary)?.offers.map(offer => offer.text) ?? []
}

const names = [...vocabulary.names]
const filters = vocabulary.filters.map(([text]) => text)

test('names are offered where a value is expected, and filters after a bar', () => {
  for (const [text, expected] of [
    ['Hello {{¦', names],
    ['{{ in¦ }}', ['inputs.since', 'inputs.title']],
    ['{{ inputs.t¦', ['inputs.title']],
    ['{{ found and ¦', names],
    ['{{- ¦', names],
    ['{{ a - ¦', names],
    ['{% if ¦', names],
    ['{% for hit in f¦', ['found']],
    ['{{ found | join(¦', names],
    ['{{ found |¦', filters],
    ['{{ found | l¦ }}', ['length', 'lower']],
    ['{{ found | default¦', ["default('none')"]],
    ["{{ found | default('a') | lo¦", ['lower']],
    ['{{ a }} and {{ f¦', ['found']],
    ['{"text": "{{ f¦"}', ['found']],
  ] as const)
    expect(offered(text), text).toEqual(expected)
})

test('nothing is offered where nothing of it fits', () => {
  for (const text of [
    'in¦',
    '{ in¦',
    '{{ found ¦',
    '{{ found¦',
    '{{ found.i¦',
    '{{ a }} in¦',
    "{{ found | default('in¦",
    '{{ "in¦',
    '{% ¦',
    '{%- in¦',
    '{# {{ in¦',
    '{{ 12¦',
    '{"a": {"b": 1}} in¦',
  ])
    expect(offered(text), text).toEqual([])
})

test('an offer takes the place of the whole word, and stands apart from the brackets', () => {
  const text = 'Since {{inputs.foo }}'
  const found = completionAt(text, 'Since {{in'.length, vocabulary)
  expect(found).toMatchObject({ from: 8, to: 18 })
  expect(found && written(text, found, { text: 'inputs.since' })).toBe(' inputs.since')
  const spaced = completionAt('{{ in', 5, vocabulary)
  expect(spaced && written('{{ in', spaced, { text: 'inputs.since' })).toBe('inputs.since')
})

test('a template is told apart from the text around it', () => {
  const codes = (text: string) => pieces(text).flatMap(piece => (piece.isCode ? [piece.text] : []))
  expect(codes('Hello {{ inputs.name }}, {% if a %}{{ b }}{% endif %}{# why #}')).toEqual([
    '{{ inputs.name }}',
    '{% if a %}',
    '{{ b }}',
    '{% endif %}',
    '{# why #}',
  ])
  // What is not closed is text as yet.
  expect(codes('{{ inputs')).toEqual([])
  for (const text of ['', 'plain', '{{a}}{{b}} {\n%', '}} {{ x\n}} y'])
    expect(
      pieces(text)
        .map(piece => piece.text)
        .join(''),
    ).toBe(text)
  expect(pieces('a{{b}}c').map(piece => piece.at)).toEqual([0, 1, 6])
})
