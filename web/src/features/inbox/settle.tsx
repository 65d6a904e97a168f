// A call whose outcome is unknown: a person who found out says what became of it.
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Invocation } from '@/api/types'
import { Button, Failed, fieldClass } from '@/components/ui'
import { settle } from './queries'

export function Settle({ item, onSettled }: { item: Invocation; onSettled: (item: Invocation) => void }) {
  const [reason, setReason] = useState('')
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState(false)
  const say = async (as: 'succeeded' | 'failed') => {
    setBusy(true)
    try {
      onSettled((await settle(item.id, as, reason.trim())).invocation)
    } catch (cause) {
      if (cause instanceof ApiError) setError(cause)
      else throw cause
    } finally {
      setBusy(false)
    }
  }
  return (
    <div className="border-t bg-panel px-4 py-3 md:px-6">
      {error && <Failed error={error} />}
      <label>
        You looked there yourself: how do you know?
        <input value={reason} onChange={event => setReason(event.target.value)} className={`${fieldClass} mt-1`} />
      </label>
      <div className="mt-2 flex gap-2">
        <Button busy={busy} disabled={!reason.trim()} onClick={() => void say('succeeded')}>
          It succeeded
        </Button>
        <Button look="danger" busy={busy} disabled={!reason.trim()} onClick={() => void say('failed')}>
          It failed
        </Button>
      </div>
    </div>
  )
}
