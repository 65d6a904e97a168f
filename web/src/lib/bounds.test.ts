import { expect, test } from 'vitest'
import { callsIn, isAmount } from './bounds'

test('calls are counted in whole numbers, and nothing is any number', () => {
  expect([' 5 ', '', '0', '-1', '2.5', '1e3', 'five', '9999999999'].map(callsIn)).toEqual([5, null, ...Array(6).fill(undefined)])
})

test('an amount is a plain decimal above nothing', () => {
  for (const text of ['500', '12.50', '0.000001']) expect(isAmount(text), text).toBe(true)
  for (const text of ['', '0', '007', '-1', '1,000', '1e3', '.5', '1.1234567', 'much']) expect(isAmount(text), text).toBe(false)
})
