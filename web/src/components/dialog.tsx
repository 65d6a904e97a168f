// The browser's own dialog: it keeps the focus while it is open, closes with Escape, and gives the focus back.
import { type ReactNode, useId, useLayoutEffect, useRef } from 'react'
import { cx } from './ui'

export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ReactNode; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  // Closed while it is still in the page: only then does the browser give the focus back.
  useLayoutEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the key is Escape, which the browser turns into `cancel`
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={event => {
        event.preventDefault()
        onClose()
      }}
      // A click on the dialog itself, and on nothing in it, is one beside it.
      onClick={event => event.target === event.currentTarget && onClose()}
      className={cx(
        'mx-auto mt-[10vh] max-h-[80vh] w-[calc(100%-1.5rem)] overflow-auto rounded-lg border bg-panel text-fg shadow-xl backdrop:bg-black/40',
        wide ? 'max-w-2xl' : 'max-w-md',
      )}
    >
      <div className="p-5">
        <h2 id={id} className="text-base font-semibold">
          {title}
        </h2>
        {children}
      </div>
    </dialog>
  )
}

export function DialogFoot({ children }: { children: ReactNode }) {
  // Always in sight, however long the form above it is.
  return <div className="sticky bottom-0 -mx-5 mt-5 -mb-5 flex flex-wrap justify-end gap-2 border-t bg-panel px-5 py-3">{children}</div>
}
