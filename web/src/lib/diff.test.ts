import { expect, test } from 'vitest'
import { lineDiff } from './diff'

test('what stays keeps its place, and what differs has a sign', () => {
  expect(lineDiff('a\nb\nc', 'a\nB\nc\nd')).toBe(' a\n-b\n+B\n c\n+d')
  expect(lineDiff('same', 'same')).toBe(' same')
  expect(lineDiff('', 'one\n')).toBe('+one')
})
