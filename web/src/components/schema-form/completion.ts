// What a template could go on with where the cursor is. Pure.

/** What a template may use: names, and filters as they are written, each with what it gives. */
export type Vocabulary = { names: readonly string[]; filters: readonly (readonly [written: string, gives: string])[] }
export type Offer = { text: string; about?: string }
/** What is offered in the place of a part of the text. */
export type Completion = { from: number; to: number; offers: Offer[] }

const CLOSED = /\{#[\s\S]*?#\}|\{\{(?:[^'"}]|'[^']*'|"[^"]*"|\}(?!\}))*\}\}|\{%(?:[^'"%]|'[^']*'|"[^"]*"|%(?!\}))*%\}/g
/** An expression that goes on to the end, outside of the quoted texts in it. */
const OPEN = /\{[{%](?:[^'"]|'[^']*'|"[^"]*")*$/
/** Where a value is expected, and not an operator. */
const BEFORE_VALUE = /(?:^\{\{-?|[(,[+*/~<>=!]|[^{%]-|\b(?:if|elif|else|in|and|or|not))\s*$/

export function completionAt(text: string, cursor: number, { names, filters }: Vocabulary): Completion | undefined {
  const unclosed = text.slice(0, cursor).replace(CLOSED, '')
  const [inner] = OPEN.exec(unclosed) ?? []
  if (inner === undefined || unclosed.includes('{#')) return undefined
  const word = /[a-z_][\w.]*$/i.exec(inner)?.[0] ?? ''
  const before = inner.slice(0, inner.length - word.length)
  const isFilter = /\|\s*$/.test(before)
  if (!isFilter && !BEFORE_VALUE.test(before)) return undefined
  const all: Offer[] = isFilter ? filters.map(([written, about]) => ({ text: written, about })) : names.map(name => ({ text: name }))
  const offers = all.filter(offer => offer.text.startsWith(word) && offer.text !== word)
  if (offers.length === 0) return undefined
  const rest = /^[\w.]*/.exec(text.slice(cursor))?.[0] ?? ''
  return { from: cursor - word.length, to: cursor + rest.length, offers }
}

/** What is written for an offer: not right after the brackets or the bar. */
export const written = (text: string, { from }: Completion, offer: Offer): string =>
  /[{|]$/.test(text.slice(0, from)) ? ` ${offer.text}` : offer.text

type Piece = { at: number; text: string; isCode: boolean }

/** A template in pieces: what is filled in or decided when it is rendered, and the text around it. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = []
  let at = 0
  for (const [index, piece] of text.split(/(\{\{[\s\S]*?\}\}|\{%[\s\S]*?%\}|\{#[\s\S]*?#\})/).entries()) {
    if (piece) found.push({ at, text: piece, isCode: index % 2 === 1 })
    at += piece.length
  }
  return found
}
