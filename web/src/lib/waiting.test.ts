import { expect, test } from 'vitest'
import type { Action } from '@/api/types'
import { deadIn, driftedIn } from './waiting'

test('what drifted and what appeared is to be reviewed, whichever source it is of', () => {
  const action = (id: string, drift: Action['drift']) => ({ id, drift }) as Action
  const sources = [
    { actions: [action('a.one', 'none'), action('a.two', 'textual')] },
    { actions: [action('b.one', 'appeared'), action('b.two', 'structural')] },
  ]
  expect(driftedIn({ sources }).map(each => each.id)).toEqual(['a.two', 'b.one', 'b.two'])
})

test('dead letters are added up over all channels', () => {
  expect(deadIn([])).toBe(0)
  expect(deadIn([{ dead: 2 }, { dead: 0 }, { dead: 1 }])).toBe(3)
})
