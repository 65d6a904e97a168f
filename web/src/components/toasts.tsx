// Short messages at the bottom, told to screen readers too. One may offer to take something back, and one that must be read stays until then.
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from 'react'
import { Button, cx } from './ui'

type Options = {
  undo?: () => void
  /** What to do about it. */
  hint?: string
  /** Until it is dismissed. */
  stays?: boolean
}
type Toast = Options & { id: number; text: string }
type Toasts = { say: (text: string, options?: Options) => () => void }

const Context = createContext<Toasts>({ say: () => () => {} })
let next = 1

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([])
  const close = useCallback((id: number) => setToasts(all => all.filter(toast => toast.id !== id)), [])
  const say = useCallback<Toasts['say']>(
    (text, options = {}) => {
      const id = next++
      setToasts(all => [...all.filter((toast, at) => toast.stays || at >= all.length - 3), { ...options, id, text }])
      if (!options.stays) setTimeout(() => close(id), 6_000)
      return () => close(id)
    },
    [close],
  )
  const value = useMemo(() => ({ say }), [say])
  return (
    <Context value={value}>
      {children}
      <div
        aria-live="polite"
        className="pointer-events-none fixed inset-x-0 bottom-16 z-50 flex max-h-[60vh] flex-col items-center gap-2 overflow-y-auto px-3 pb-4"
      >
        {toasts.map(toast => (
          <div
            key={toast.id}
            className={cx(
              'pointer-events-auto flex shrink-0 items-center gap-3 rounded-md border bg-panel px-4 py-2 shadow-lg',
              toast.stays && 'border-danger',
            )}
          >
            <span className="foreign">
              {toast.text}
              {toast.hint && <span className="block text-xs text-muted-fg">{toast.hint}</span>}
            </span>
            {toast.undo && (
              <Button
                look="quiet"
                className="min-h-7"
                onClick={() => {
                  toast.undo?.()
                  close(toast.id)
                }}
              >
                Undo
              </Button>
            )}
            {toast.stays && (
              <Button look="quiet" className="min-h-7" onClick={() => close(toast.id)}>
                Dismiss
              </Button>
            )}
          </div>
        ))}
      </div>
    </Context>
  )
}

export const useToasts = (): Toasts => useContext(Context)
