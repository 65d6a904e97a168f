// Writing into a field that React controls.

export type TextField = HTMLInputElement | HTMLTextAreaElement

/** Writes in the place of what is selected, as if it were typed there. */
export function insertInto(field: TextField, text: string): void {
  const [from, to] = [field.selectionStart ?? field.value.length, field.selectionEnd ?? field.value.length]
  const next = field.value.slice(0, from) + text + field.value.slice(to)
  // React hears of a value only if it is set past its own setter.
  const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement
  Object.getOwnPropertyDescriptor(kind.prototype, 'value')?.set?.call(field, next)
  field.dispatchEvent(new Event('input', { bubbles: true }))
  field.focus()
  field.setSelectionRange(from + text.length, from + text.length)
}
