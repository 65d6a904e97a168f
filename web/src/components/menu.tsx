// A button with a short menu below it. Arrows move, Escape closes, and so does a click elsewhere.
import { ChevronDown } from 'lucide-react'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { buttonClass, cx, Kbd } from './ui'

export type MenuItem = { label: string; hotkey: string; off?: string; onPick: () => void }

export function Menu({ label, items, disabled }: { label: string; items: readonly MenuItem[]; disabled?: boolean }) {
  const [open, setOpen] = useState(false)
  const root = useRef<HTMLSpanElement>(null)
  const trigger = useRef<HTMLButtonElement>(null)
  const all = () => [...(root.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
  useEffect(() => {
    if (!open) return
    root.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const elsewhere = (event: PointerEvent) => !root.current?.contains(event.target as Node) && setOpen(false)
    document.addEventListener('pointerdown', elsewhere)
    return () => document.removeEventListener('pointerdown', elsewhere)
  }, [open])
  const close = () => {
    setOpen(false)
    trigger.current?.focus()
  }
  const pressed = (event: KeyboardEvent) => {
    const found = all()
    const at = found.indexOf(document.activeElement as HTMLElement)
    if (event.key === 'Escape') close()
    else if (event.key === 'ArrowDown') found[(at + 1) % found.length]?.focus()
    else if (event.key === 'ArrowUp') found[(at - 1 + found.length) % found.length]?.focus()
    else if (event.key === 'Tab') setOpen(false)
    else return
    if (event.key !== 'Tab') event.preventDefault()
    event.stopPropagation()
  }
  return (
    <span ref={root} className="relative inline-flex">
      <button
        ref={trigger}
        type="button"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        disabled={disabled}
        onClick={() => setOpen(!open)}
        className={cx(buttonClass('primary'), 'rounded-l-none border-l border-l-primary-fg/30 px-2')}
      >
        <ChevronDown aria-hidden className="size-4" />
      </button>
      {open && (
        <div
          role="menu"
          tabIndex={-1}
          aria-label={label}
          onKeyDown={pressed}
          className="absolute bottom-full left-0 z-30 mb-1 min-w-56 rounded-md border bg-panel p-1 shadow-xl max-md:right-0 max-md:left-auto"
        >
          {items.map(item => (
            <button
              key={item.label}
              type="button"
              role="menuitem"
              aria-disabled={!!item.off}
              onClick={() => {
                if (item.off) return
                close()
                item.onPick()
              }}
              className="flex w-full items-center justify-between gap-4 rounded px-3 py-2 text-left text-sm hover:bg-accent focus:bg-accent aria-disabled:text-muted-fg"
            >
              <span>
                {item.label}
                {item.off && <span className="block max-w-64 text-xs">{item.off}</span>}
              </span>
              <Kbd>{item.hotkey}</Kbd>
            </button>
          ))}
        </div>
      )}
    </span>
  )
}
