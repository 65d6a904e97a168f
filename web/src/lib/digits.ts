// Numbers that a browser cannot keep. The server reads whole numbers of 64 bits digit by digit; here every number is a double.

/** The first number in a value whose digits may not be those that were written: a whole one beyond 2^53 − 1, or one too large for a double. */
export function unkept(value: unknown): number | undefined {
  if (typeof value === 'number') {
    const isKept = Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value)
    return isKept ? undefined : value
  }
  if (typeof value !== 'object' || value === null) return undefined
  for (const inner of Object.values(value)) {
    const found = unkept(inner)
    if (found !== undefined) return found
  }
  return undefined
}

/** Why nothing is sent that has such a number. Which digits were written is not known any more. */
export const unkeptInWords = (found: number): string =>
  `A browser keeps whole numbers up to 9007199254740991, and reads one here as ${found}: its last digits may be lost.`
