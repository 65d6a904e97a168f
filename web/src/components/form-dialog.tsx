// A form in a dialog, or a question before what a click does not take back.
import type { FormEvent, ReactNode } from 'react'
import { useSending } from '@/lib/sending'
import { Dialog, DialogFoot } from './dialog'
import { Button, Failed } from './ui'

/** `send` closes it when it succeeds; otherwise it says here why it was refused. */
export function FormDialog({
  title,
  verb,
  look = 'primary',
  disabled,
  wide,
  send,
  onClose,
  children,
}: {
  title: string
  verb: string
  look?: 'primary' | 'danger'
  disabled?: boolean
  wide?: boolean
  send: () => Promise<void>
  onClose: () => void
  children?: ReactNode
}) {
  const { error, busy, run } = useSending()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!disabled) void run('it', send)
  }
  return (
    <Dialog title={title} onClose={onClose} wide={wide}>
      <form onSubmit={submit}>
        <div className="mt-3 space-y-3 [&>button]:max-w-full">{children}</div>
        {error && <Failed error={error} />}
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look={look} type="submit" busy={!!busy} disabled={disabled}>
            {verb}
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}
