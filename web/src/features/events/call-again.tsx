// A call that was given up, made once more as a new call of whoever asks: as it was, or with other params.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Json, Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { Params } from '@/components/params'
import { SchemaForm } from '@/components/schema-form'
import { Copy, Loading } from '@/components/ui'
import { oneQuery } from '@/features/invocations/queries'
import { actionQuery } from '@/lib/actions'
import { inOwnSession } from '@/lib/own-session'
import { retryLetter } from './queries'

type Props = { letter: string; onMade: (made: Schemas['RetriedLetterResponse']) => Promise<void>; onClose: () => void }

export function CallAgain({ letter, onMade, onClose }: Props) {
  const read = useQuery(oneQuery(letter))
  const call = read.data?.invocation
  const action = useQuery({ ...actionQuery(call?.action ?? ''), enabled: !!call })
  const [isEdited, setEdited] = useState(false)
  const [given, setGiven] = useState<Json>()
  const [refused, setRefused] = useState<ApiError>()
  const send = async () => {
    setRefused(undefined)
    try {
      const params = isEdited ? (given ?? call?.params) : undefined
      await onMade(await inOwnSession(session => retryLetter(letter, { session, params })))
    } catch (cause) {
      if (cause instanceof ApiError) setRefused(cause)
      throw cause
    }
  }
  return (
    <FormDialog title={`Call ${call?.action ?? 'it'} again`} verb="Call it again" wide disabled={!call} send={send} onClose={onClose}>
      <p>It is a new call, and yours: it is decided, approved and recorded like any other.</p>
      <Asked query={read} />
      {read.isPending && <Loading />}
      {call && (
        <>
          <label className="flex items-center gap-2">
            <input
              type="checkbox"
              checked={isEdited}
              onChange={event => setEdited(event.target.checked)}
              className="size-4 accent-primary"
            />
            With other params
          </label>
          {isEdited ? (
            <>
              <p className="text-muted-fg">What was redacted or cut off has to be written again: only what stands here is sent.</p>
              <SchemaForm
                schema={action.data?.params_schema}
                params={call.params}
                showErrors={!!refused}
                refused={refused?.problem.errors}
                onChange={setGiven}
              />
            </>
          ) : (
            <Params params={call.params} schema={action.data?.params_schema} />
          )}
        </>
      )}
      <Copy text={`countersign event dlq retry ${letter}`} className="max-w-full" />
    </FormDialog>
  )
}
