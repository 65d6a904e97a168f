// The bounds of a grant as a person types them, and what is said beside the field where one cannot be read.

/** How many calls: `null` where nothing is typed, which is any number, and `undefined` where it says no such number. */
export function callsIn(text: string): number | null | undefined {
  const typed = text.trim()
  if (typed === '') return null
  return /^[1-9]\d{0,8}$/.test(typed) ? Number(typed) : undefined
}

/** Whether it is an amount as the server reads one, and more than 0. */
export const isAmount = (text: string): boolean => /^(0|[1-9]\d*)(\.\d{1,6})?$/.test(text.trim()) && Number(text) > 0

export const NO_CALLS = { isGood: false, text: 'A whole number from 1 up, or nothing for any number of calls.' }
export const NO_AMOUNT = { isGood: false, text: 'A number above 0 such as 500 or 12.50, with six decimals at most.' }
export const NO_PARAM = { isGood: false, text: 'The place of a param, such as /amount.' }
