// Keys of a page. They are off while somebody types, and while a dialog is open.
import { useEffect, useRef } from 'react'

export type Keys = Record<string, (event: KeyboardEvent) => void>

/** How the keys of the palette are called here. */
export const paletteKeys = (): string => (/Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl K')

/** How long the first key of two waits for the second. */
const SECOND_KEY_MS = 400

const maps: { current: Keys }[] = []
let first = ''
let timer: ReturnType<typeof setTimeout> | undefined

/** `a`, `Shift+a`, `Mod+k`, `escape`: how a pressed key is written in a map of keys. */
export function nameOf(event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'metaKey' | 'ctrlKey' | 'altKey'>): string {
  const key = event.key.toLowerCase()
  // The shift of `?` is part of the character.
  const shift = event.shiftKey && (key.length > 1 || key.toUpperCase() !== key) ? 'Shift+' : ''
  return `${event.metaKey || event.ctrlKey ? 'Mod+' : ''}${event.altKey ? 'Alt+' : ''}${shift}${key}`
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'button'].includes(target.type)
  return target.isContentEditable || ['TEXTAREA', 'SELECT'].includes(target.tagName)
}

/** A click beside the fields of a dialog takes the focus out of it, so what is open counts, too. */
const inDialog = (target: EventTarget | null): boolean =>
  document.querySelector('dialog[open]') !== null || (target instanceof Element && target.closest('[role=menu]') !== null)

function find(name: string): ((event: KeyboardEvent) => void) | undefined {
  return maps.findLast(map => map.current[name])?.current[name]
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.repeat || event.isComposing) return
  const name = nameOf(event)
  if (!name.startsWith('Mod+') && (isTyping(event.target) || inDialog(event.target))) return
  clearTimeout(timer)
  if (first) {
    const both = find(`${first} ${name}`)
    first = ''
    // A second key that means nothing here does not mean what it means alone: `G A` must not approve.
    if (both) {
      event.preventDefault()
      both(event)
    }
    return
  }
  const alone = find(name)
  if (maps.some(map => Object.keys(map.current).some(key => key.startsWith(`${name} `)))) {
    first = name
    timer = setTimeout(() => {
      first = ''
      if (!inDialog(null)) alone?.(event)
    }, SECOND_KEY_MS)
  } else if (alone) {
    event.preventDefault()
    alone(event)
  }
}

/** Listens on the window, the outside system, while the component is shown. The newest of several maps counts first. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    if (maps.length === 0) window.addEventListener('keydown', pressed)
    maps.push(latest)
    return () => {
      maps.splice(maps.indexOf(latest), 1)
      if (maps.length === 0) window.removeEventListener('keydown', pressed)
    }
  }, [])
}
