// What a person settles: a call whose outcome is unknown, and what is held in quarantine.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Invocation } from '@/api/types'
import { Pre } from '@/components/changes'
import { Button, Failed, fieldClass, When } from '@/components/ui'
import { json, line } from '@/lib/clean'
import { useSending } from '@/lib/sending'
import { lookAt, quarantineQuery, settle, settleQuarantine } from './queries'

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

/** What was caught in a call, and what a person does with it. The content is shown only to whoever asks for it. */
export function Quarantined({ item, onSettled }: { item: Invocation; onSettled: () => void }) {
  const client = useQueryClient()
  const held = useQuery(quarantineQuery(item.id))
  const [reason, setReason] = useState('')
  const [content, setContent] = useState<{ payload: unknown; digest: string | undefined }>()
  const { error, busy, run: sending } = useSending<'look' | 'release' | 'discard'>()
  if (!held.data) return null
  const found = held.data
  const run = (what: NonNullable<typeof busy>) =>
    sending(what, async () => {
      if (what === 'look') {
        const looked = await lookAt(item.id)
        setContent({ payload: looked.payload, digest: looked.digest ?? undefined })
        return
      }
      await settleQuarantine(item.id, what, reason.trim(), content?.digest ?? found.digest ?? undefined)
      await client.invalidateQueries({ queryKey: ['quarantine', item.id] })
      onSettled()
    })
  return (
    <div className="max-h-[50%] overflow-auto border-t bg-panel px-4 py-3 md:px-6">
      <p className="font-medium">
        In quarantine: {found.holds === 'params' ? 'its params' : 'what came back'} ({found.state})
      </p>
      {found.caught.map(caught => (
        <p key={`${caught.rule}${caught.pointer}`} className="foreign">
          ! {line(caught.message)} ({caught.rule}) {line(caught.pointer)}
        </p>
      ))}
      {error && <Failed error={error} />}
      {content && <Pre text={json(content.payload)} />}
      {found.state === 'held' ? (
        <>
          <p className="text-xs text-muted-fg">
            It is discarded <When at={found.expires_at} />. That you look at the content is recorded.
          </p>
          <label>
            Why?
            <input value={reason} onChange={event => setReason(event.target.value)} className={`${fieldClass} mt-1`} />
          </label>
          <div className="mt-2 flex flex-wrap gap-2">
            <Button busy={busy === 'look'} onClick={() => void run('look')}>
              Show the content
            </Button>
            <Button
              look="danger"
              busy={busy === 'release'}
              disabled={!reason.trim() || !content}
              title={content ? undefined : 'Look at it first'}
              onClick={() => void run('release')}
            >
              Release
            </Button>
            <Button busy={busy === 'discard'} disabled={!reason.trim()} onClick={() => void run('discard')}>
              Discard
            </Button>
          </div>
        </>
      ) : (
        <p className="foreign">
          {found.settled_by && `By ${found.settled_by}. `}
          {found.reason && `“${line(found.reason)}” `}
          {found.released_as && `Released as ${found.released_as}.`}
        </p>
      )}
    </div>
  )
}
