// The lines that two texts differ in, as a unified diff with all that stays.

/** Beyond this many lines each, the texts are shown one after the other. */
const LINES_MAX = 2_000

export function lineDiff(before: string, after: string): string {
  const [a, b] = [linesOf(before), linesOf(after)]
  if (a.length > LINES_MAX || b.length > LINES_MAX) return [...a.map(line => `-${line}`), ...b.map(line => `+${line}`)].join('\n')
  // long[i][j]: how many lines are common to what follows a[i] and b[j].
  const long = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1))
  const at = (i: number, j: number): number => long[i]?.[j] ?? 0
  for (let i = a.length - 1; i >= 0; i -= 1) {
    const row = long[i] as Uint16Array
    for (let j = b.length - 1; j >= 0; j -= 1) row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  }
  const lines: string[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(` ${a[i]}`)
      i += 1
      j += 1
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(`-${a[i]}`)
      i += 1
    } else {
      lines.push(`+${b[j]}`)
      j += 1
    }
  }
  return lines.join('\n')
}

/** The break at the end of the last line begins no other. */
const linesOf = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))
