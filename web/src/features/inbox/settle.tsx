// What a person settles: a call whose outcome is unknown.
import { useState } from 'react'
import type { Invocation } from '@/api/types'
import { Button, Failed, fieldClass } from '@/components/ui'
import { useSending } from '@/lib/sending'
import { settle } from './queries'

export function Settle({ item, onSettled }: { item: Invocation; onSettled: (item: Invocation) => void }) {
  const [reason, setReason] = useState('')
  const { error, busy, run } = useSending<'succeeded' | 'failed'>()
  const say = (as: 'succeeded' | 'failed') =>
    run(as, async () => {
      onSettled((await settle(item.id, as, reason.trim())).invocation)
    })
  return (
    <div className="border-t bg-panel px-4 py-3 md:px-6">
      {error && <Failed error={error} />}
      <label>
        You looked there yourself: how do you know?
        <input value={reason} onChange={event => setReason(event.target.value)} className={`${fieldClass} mt-1`} />
      </label>
      <div className="mt-2 flex gap-2">
        <Button busy={busy === 'succeeded'} disabled={!reason.trim() || !!busy} onClick={() => void say('succeeded')}>
          It succeeded
        </Button>
        <Button look="danger" busy={busy === 'failed'} disabled={!reason.trim() || !!busy} onClick={() => void say('failed')}>
          It failed
        </Button>
      </div>
    </div>
  )
}
