// Short messages at the bottom, told to screen readers too. One may offer to take something back.
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from 'react'
import { Button } from './ui'

type Toast = { id: number; text: string; undo?: () => void }
type Toasts = { say: (text: string, options?: { undo?: () => void; ms?: number }) => () => void }

const Context = createContext<Toasts>({ say: () => () => {} })
let next = 1

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([])
  const say = useCallback<Toasts['say']>((text, options = {}) => {
    const id = next++
    const close = () => setToasts(all => all.filter(toast => toast.id !== id))
    setToasts(all => [...all.slice(-3), { id, text, undo: options.undo }])
    setTimeout(close, options.ms ?? 6_000)
    return close
  }, [])
  const value = useMemo(() => ({ say }), [say])
  return (
    <Context value={value}>
      {children}
      <div aria-live="polite" className="pointer-events-none fixed inset-x-0 bottom-20 z-50 flex flex-col items-center gap-2 px-3">
        {toasts.map(toast => (
          <div key={toast.id} className="pointer-events-auto flex items-center gap-3 rounded-md border bg-panel px-4 py-2 shadow-lg">
            <span className="foreign">{toast.text}</span>
            {toast.undo && (
              <Button
                look="quiet"
                className="min-h-7"
                onClick={() => {
                  toast.undo?.()
                  setToasts(all => all.filter(each => each.id !== toast.id))
                }}
              >
                Undo
              </Button>
            )}
          </div>
        ))}
      </div>
    </Context>
  )
}

export const useToasts = (): Toasts => useContext(Context)
