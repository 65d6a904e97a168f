// Times, spans and counts in words, and words of commands.

const UNITS: readonly (readonly [number, string])[] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
]

/** `3 min`, `2 h`, `5 d`: the largest unit there is one of. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const [length, unit] = UNITS.find(([length]) => whole >= length) ?? [1, 's']
  return `${Math.floor(whole / length)} ${unit}`
}

/** What is left until a deadline: `4:12` below an hour, `23 h` above; `0:00` when it is over. */
export function countdown(until: string, now: number): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(until) - now) / 1000))
  if (seconds >= 3_600) return span(seconds)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

/** `37 s ago`, or `in 4 min`. */
export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000
  // The clock of a page moves once a second.
  if (Math.abs(seconds) < 2) return 'now'
  if (seconds < 0) return `in ${span(-seconds)}`
  return `${span(seconds)} ago`
}

/** Local time and UTC, each on its line. */
export function absolute(at: string): string {
  const date = new Date(at)
  return `${date.toLocaleString()}\n${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** The time of a day to the millisecond, local: for what follows upon each other within moments. */
export function clockTime(at: string): string {
  const date = new Date(at)
  const two = (value: number) => String(value).padStart(2, '0')
  return `${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

export function milliseconds(value: number): string {
  return value < 1_000 ? `${value} ms` : value < 60_000 ? `${(value / 1_000).toFixed(1)} s` : span(value / 1_000)
}

/** `412 B`, `1.5 kB`, `3.0 MB`. */
export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`
  return count < 1_000_000 ? `${(count / 1_000).toFixed(1)} kB` : `${(count / 1_000_000).toFixed(1)} MB`
}

/** `1 call`, `3 calls`. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string => `${count} ${count === 1 ? noun : plural}`

/** The first characters of a digest. */
export const short = (digest: string): string => `${digest.slice(0, 12)}…`

/** A word for the shell: quoted only if it must be. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** A command with those of the flags that have a value. */
export const withFlags = (command: string, flags: Record<string, string | undefined>): string =>
  [command, ...Object.entries(flags).flatMap(([name, value]) => (value ? [`--${name.replaceAll('_', '-')}`, quoted(value)] : []))].join(' ')
