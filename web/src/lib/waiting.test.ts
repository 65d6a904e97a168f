import { expect, test } from 'vitest'
import type { Action } from '@/api/types'
import { driftedIn, inWords } from './waiting'

test('what drifted and what appeared is to be reviewed, whichever source it is of', () => {
  const action = (id: string, drift: Action['drift']) => ({ id, drift }) as Action
  const sources = [
    { actions: [action('a.one', 'none'), action('a.two', 'textual')] },
    { actions: [action('b.one', 'appeared'), action('b.two', 'structural')] },
  ]
  expect(driftedIn({ sources }).map(each => each.id)).toEqual(['a.two', 'b.one', 'b.two'])
})

test('what is counted only so far says so', () => {
  expect(inWords({ items: [], next: null })).toBe('')
  expect(inWords({ items: [1, 2], next: null })).toBe('2')
  expect(inWords({ items: [1, 2], next: 'x' })).toBe('2+')
})
