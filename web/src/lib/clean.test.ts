import { expect, test } from 'vitest'
import { block, json, line } from './clean'

test('what would deceive a reader is shown instead', () => {
  for (const [text, expected] of [
    ['plain äöü 漢字 🙂', 'plain äöü 漢字 🙂'],
    ['\u{1b}[31mred', '\\u{1b}[31mred'],
    ['a\u{202e}txt.exe', 'a\\u{202e}txt.exe'],
    ['zero\u{200b}width', 'zero\\u{200b}width'],
    ['tag\u{e0041}', 'tag\\u{e0041}'],
    ['\u{fdd0}\u{ffff}\u{1fffe}', '\\u{fdd0}\\u{ffff}\\u{1fffe}'],
    ['two\nlines\tand\r', 'two\\nlines\\tand\\r'],
    ['\ud800', '\\u{d800}'],
  ] as const)
    expect(line(text)).toBe(expected)
})

test('a block keeps its lines', () => {
  expect(block('two\nlines\tand\r\n')).toBe('two\nlines\tand\\r\n')
  expect(json({ a: 'x\u{202e}' })).toBe('{\n  "a": "x\\u{202e}"\n}')
})
