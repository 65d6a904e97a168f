// A value that is written as JSON. Pure.
import { unkept, unkeptInWords } from '@/lib/digits'

/** The value of a text, or why it has none that can be sent. An empty text is no value. */
export function jsonOf(text: string, isObject: boolean): { value?: unknown; why?: string } {
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    return { why: `Not JSON: ${cause instanceof Error ? cause.message : String(cause)}` }
  }
  const lost = unkept(value)
  if (lost !== undefined) return { why: unkeptInWords(lost) }
  const fits = !isObject || (typeof value === 'object' && value !== null && !Array.isArray(value))
  return fits ? { value } : { why: 'Not a JSON object: { "name": value }' }
}
