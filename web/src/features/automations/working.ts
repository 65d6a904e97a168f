// A definition that somebody works on. It stays in this tab until it is saved or thrown away, also while another page is shown.
import type { Json, Schemas } from '@/api/types'

/** `of` is the automation that it is a version of, or `new`. */
const keyOf = (of: string) => `automation-${of}`

/** A draft that a person changes: what was flagged of it is ticked off before it is saved, where it is still as it was. */
export type Drafted = Pick<Schemas['DraftView'], 'id' | 'definition' | 'flags'>

/** What a person works on, what it began with, and in which space it would act. */
export type Working = { definition: Json; base?: string; space?: string; draft?: Drafted }

export function working(of: string): Working | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(of)) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}

export function keep(of: string, what: Working | undefined): void {
  if (what) sessionStorage.setItem(keyOf(of), JSON.stringify(what))
  else sessionStorage.removeItem(keyOf(of))
}
