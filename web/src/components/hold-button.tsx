// A button that must be held: one slip of a finger starts nothing. The keyboard takes another way, `onKey`.
import { type ReactNode, useRef, useState } from 'react'
import { buttonClass, cx } from './ui'

export const HOLD_MS = 600

export function HoldButton({
  onHeld,
  onKey,
  disabled,
  title,
  children,
}: {
  onHeld: () => void
  onKey: () => void
  disabled?: boolean
  title?: string
  children: ReactNode
}) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const [held, setHeld] = useState(false)
  const stop = () => {
    clearTimeout(timer.current)
    setHeld(false)
  }
  return (
    <button
      type="button"
      title={title}
      disabled={disabled}
      className={cx(buttonClass('danger'), 'touch-none select-none')}
      onPointerDown={event => {
        if (event.button !== 0) return
        setHeld(true)
        timer.current = setTimeout(() => {
          stop()
          onHeld()
        }, HOLD_MS)
      }}
      onPointerUp={stop}
      onPointerLeave={stop}
      onPointerCancel={stop}
      onContextMenu={event => event.preventDefault()}
      // A click without a pointer is a key, or a screen reader.
      onClick={event => event.detail === 0 && onKey()}
    >
      {held && <span aria-hidden className="absolute inset-0 origin-left motion-safe:animate-[held_600ms_linear_forwards] bg-danger/20" />}
      {children}
    </button>
  )
}
