import { expect, test } from 'vitest'
import { heard, serverNow } from './clock'

test('a deadline is counted by the clock of the server', () => {
  heard(new Date(Date.now() + 600_000).toUTCString())
  expect(Math.abs(serverNow() - Date.now() - 600_000)).toBeLessThan(2_000)
  heard('nonsense')
  heard(null)
  expect(serverNow() - Date.now()).toBeGreaterThan(500_000)
  heard(new Date().toUTCString())
  expect(serverNow() - Date.now()).toBe(0)
})
