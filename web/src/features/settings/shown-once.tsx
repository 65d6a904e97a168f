// What is shown once.
import { type ReactNode, useState } from 'react'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Button, Copy } from '@/components/ui'

/** A text that the server shows now and never again. Closing takes a decision. */
export function ShownOnce({ title, text, children, onClose }: { title: string; text: string; children: ReactNode; onClose: () => void }) {
  const [isKept, setKept] = useState(false)
  return (
    <Dialog title={title} onClose={() => isKept && onClose()} wide>
      <p className="mt-3 font-medium">It is shown now, and never again.</p>
      <p className="mt-2 rounded-md border bg-muted p-3">
        <Copy text={text} className="w-full justify-between text-left text-fg [&>span]:break-all [&>span]:whitespace-normal" />
      </p>
      <div className="mt-3 space-y-2 text-muted-fg [&>button]:max-w-full">{children}</div>
      <label className="mt-4 flex items-center gap-2">
        <input type="checkbox" checked={isKept} onChange={event => setKept(event.target.checked)} className="size-4" />I have kept it where
        it belongs
      </label>
      <DialogFoot>
        <Button look="primary" disabled={!isKept} onClick={onClose}>
          Done
        </Button>
      </DialogFoot>
    </Dialog>
  )
}
