// Text of others, made safe to show: what a screen would obey, reorder or hide, or what passes for something else, is shown as `\u{…}`.
// The same rules as `crates/core/src/clean.rs`.

const RANGES: readonly (readonly [number, number])[] = [
  [0x00, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x2024, 0x2025],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0x2800, 0x2800],
  [0x3164, 0x3164],
  [0xd800, 0xdfff],
  [0xfdd0, 0xfdef],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfffb],
  [0x13430, 0x1345f],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0xe0fff],
]

export function isDeceptive(code: number): boolean {
  return (code & 0xfffe) === 0xfffe || RANGES.some(([from, to]) => from <= code && code <= to)
}

function cleaned(text: string, kept: string): string {
  let clean = ''
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    if (kept.includes(character)) clean += character
    else if (character === '\n') clean += '\\n'
    else if (character === '\r') clean += '\\r'
    else if (character === '\t') clean += '\\t'
    else clean += isDeceptive(code) ? `\\u{${code.toString(16)}}` : character
  }
  return clean
}

/** For one line: line breaks are shown too. */
export const line = (text: string): string => cleaned(text, '')

/** For several lines: line breaks and tabs stay. */
export const block = (text: string): string => cleaned(text, '\n\t')

/** A JSON value as text, on several lines. */
export const json = (value: unknown): string => block(JSON.stringify(value, null, 2) ?? 'null')
