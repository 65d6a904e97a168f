import { renderHook } from '@testing-library/react'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { useSoon } from './soon'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** An event every 50 ms. */
async function steadily(soon: () => void, count: number): Promise<void> {
  for (let told = 0; told < count; told += 1) {
    soon()
    await vi.advanceTimersByTimeAsync(50)
  }
}

test('events that never cease are looked at all the same', async () => {
  const look = vi.fn(async () => {})
  const { result } = renderHook(() => useSoon(look, 150))
  await steadily(result.current, 20)
  expect(look).toHaveBeenCalledTimes(6)
})

test('no look stops the one before, and what was told meanwhile is looked at after it', async () => {
  const ended = vi.fn()
  const look = vi.fn(async () => {
    await new Promise(over => setTimeout(over, 400))
    ended()
  })
  const { result } = renderHook(() => useSoon(look, 150))
  await steadily(result.current, 10)
  expect([look, ended].map(each => each.mock.calls.length)).toEqual([1, 0])
  await vi.advanceTimersByTimeAsync(2_000)
  expect([look, ended].map(each => each.mock.calls.length)).toEqual([2, 2])
})
