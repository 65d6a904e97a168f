import { expect, test } from 'vitest'
import { differing } from './definition-diff'

test('what is alike at both ends is not marked, and words stay whole', () => {
  expect(differing('Finds customers by name.', 'Finds customers by mail.')).toEqual(['Finds customers by ', 'name.', ''])
  expect(differing('a new word', 'a word')).toEqual(['a ', 'new ', 'word'])
  expect(differing('a word', 'a new word')).toEqual(['a ', '', 'word'])
  expect(differing('R3', 'R2')).toEqual(['R3', '', ''])
  expect(differing('boolean', '')).toEqual(['boolean', '', ''])
})
