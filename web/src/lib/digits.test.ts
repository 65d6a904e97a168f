import { expect, test } from 'vitest'
import { unkept, unkeptInWords } from './digits'

test('a number is found whose digits a browser does not keep', () => {
  for (const [text, found] of [
    ['{"filters": {"data.id": 9007199254740993}}', 9007199254740992],
    ['[{"a": [1, -9007199254740993]}]', -9007199254740992],
    ['18446744073709551615', 18446744073709552000],
    ['1e999', Number.POSITIVE_INFINITY],
    ['{"a": 9007199254740991, "b": -9007199254740991, "c": 0.1, "d": "9007199254740993", "e": [null, true]}', undefined],
    ['"1e999"', undefined],
  ] as const)
    expect(unkept(JSON.parse(text)), text).toBe(found)
})

test('what is said of it is what the browser reads', () => {
  expect(unkeptInWords(JSON.parse('9007199254740993'))).toContain('reads one here as 9007199254740992')
})
