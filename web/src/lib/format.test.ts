import { expect, test } from 'vitest'
import { absolute, ago, bytes, clockTime, countdown, counted, milliseconds, quoted, span, withFlags } from './format'

const now = Date.parse('2026-11-17T12:00:00Z')

test('a deadline counts down and stops at zero', () => {
  for (const [until, expected] of [
    ['2026-11-17T12:04:12Z', '4:12'],
    ['2026-11-17T12:00:00.400Z', '0:01'],
    ['2026-11-17T11:59:00Z', '0:00'],
    ['2026-11-18T11:00:00Z', '23 h'],
  ] as const)
    expect(countdown(until, now)).toBe(expected)
})

test('times and counts are said in words', () => {
  expect(ago('2026-11-17T11:59:23Z', now)).toBe('37 s ago')
  expect(ago('2026-11-17T12:30:00Z', now)).toBe('in 30 min')
  expect(ago('2026-11-17T12:00:00Z', now)).toBe('now')
  expect([span(0), span(59), span(61), span(7_300), span(200_000)]).toEqual(['0 s', '59 s', '1 min', '2 h', '2 d'])
  expect([milliseconds(14), milliseconds(1_500), milliseconds(90_000)]).toEqual(['14 ms', '1.5 s', '1 min'])
  expect([bytes(0), bytes(999), bytes(1_500), bytes(3_000_000)]).toEqual(['0 B', '999 B', '1.5 kB', '3.0 MB'])
  expect([counted(1, 'call'), counted(0, 'call')]).toEqual(['1 call', '0 calls'])
})

test('a time of the day is local, and to the millisecond', () => {
  const local = new Date(2026, 10, 17, 9, 4, 5, 67)
  expect(clockTime(local.toISOString())).toBe('09:04:05.067')
  // What the server measures more finely is cut.
  expect(clockTime(local.toISOString().replace('067Z', '067899Z'))).toBe('09:04:05.067')
})

test('an exact time is local and in UTC, each on a line of its own', () => {
  const at = '2026-11-17T09:04:05.067Z'
  expect(absolute(at)).toBe(`${new Date(at).toLocaleString()}\n2026-11-17 09:04:05 UTC`)
})

test('a command can be pasted into a shell, with the flags that have a value', () => {
  expect(quoted('files.write_text')).toBe('files.write_text')
  expect(quoted("it's $HOME")).toBe("'it'\\''s $HOME'")
  expect(withFlags('countersign receipt list', { action: 'files.list', session: undefined, trace_id: 'a b' })).toBe(
    "countersign receipt list --action files.list --trace-id 'a b'",
  )
})
