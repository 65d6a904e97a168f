// What is held of a call in quarantine, and what a person does with it. The content is shown only to whoever asks for it.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApiError } from '@/api/client'
import { Pre } from '@/components/changes'
import { Button, Failed, fieldClass, When } from '@/components/ui'
import { json, line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { lookAt, quarantineQuery, settleQuarantine } from './queries'

export function Quarantined({ id, onSettled }: { id: string; onSettled?: () => void }) {
  const client = useQueryClient()
  const held = useQuery(quarantineQuery(id))
  const maySettle = useMay().includes('approve')
  const nameOf = useNames()
  const [reason, setReason] = useState('')
  const [content, setContent] = useState<{ payload: unknown; digest: string | undefined }>()
  const { error, busy, run: sending } = useSending<'look' | 'release' | 'discard'>()
  if (!held.data) {
    const error = held.error as ApiError | null
    return error && error.code !== 'not_found' ? <Failed error={error} /> : null
  }
  const found = held.data
  const run = (what: NonNullable<typeof busy>) =>
    sending(what, async () => {
      if (what === 'look') {
        const looked = await lookAt(id)
        setContent({ payload: looked.payload, digest: looked.digest ?? undefined })
        return
      }
      await settleQuarantine(id, what, reason.trim(), content?.digest ?? found.digest ?? undefined)
      await client.invalidateQueries({ queryKey: ['quarantine', id] })
      await client.invalidateQueries({ queryKey: ['quarantines'] })
      onSettled?.()
    })
  return (
    <>
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
        <p className="text-xs text-muted-fg">
          It is discarded <When at={found.expires_at} />.{' '}
          {maySettle
            ? 'That you look at the content is recorded. To release it, look at it and say why.'
            : 'Somebody with the permission approve looks at it.'}
        </p>
      ) : (
        <p className="foreign">
          {found.settled_by && `By ${line(nameOf(found.settled_by))}. `}
          {found.reason && `“${line(found.reason)}” `}
          {found.released_as && (
            <>
              Released as{' '}
              <Link to="/" search={{ call: found.released_as }} className="text-primary underline">
                {found.released_as}
              </Link>
              .
            </>
          )}
        </p>
      )}
      {found.state === 'held' && maySettle && (
        <>
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
      )}
    </>
  )
}
