// The notices to one channel that were given up. Each is delivered once more, or dropped.

import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked, More } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Empty, Failed, Foreign, Loading, When } from '@/components/ui'
import { grouped, UNTOLD } from '@/features/events/model'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { channelsQuery } from '@/lib/waiting'
import { type Channel, deadNoticesQuery, dropNotices, retryNotices } from './queries'

type Letter = Schemas['DeliveryView']

export function DeadNotices({ channel }: { channel: Channel }) {
  const client = useQueryClient()
  const dead = useInfiniteQuery(deadNoticesQuery(channel.name))
  const mayManage = useMay().includes('manage_policy')
  const { say } = useToasts()
  const { error, busy, run } = useSending<string>()
  const [dropping, setDropping] = useState<Letter | 'all'>()
  const letters = dead.data?.pages.flatMap(page => page.items) ?? []
  const done = async (words: string) => {
    say(words)
    await Promise.all([client.invalidateQueries({ queryKey: ['dead'] }), client.invalidateQueries({ queryKey: channelsQuery.queryKey })])
  }
  const retry = (letter?: Letter) =>
    run(letter?.id ?? 'all', async () => {
      const { retried } = await retryNotices(channel.id, letter?.id)
      await done(`${counted(retried, 'dead letter')} on the way once more.`)
    })
  if (dead.isPending) return <Loading />
  return (
    <div>
      <Asked query={dead} />
      {error && <Failed error={error} />}
      {letters.length === 0 && !dead.error && <Empty title="No dead letters">What was to be told is told, or still tried.</Empty>}
      {mayManage && letters.length > 0 && (
        <div className="flex flex-wrap items-center gap-2 border-b px-4 py-2 md:px-6">
          <Copy text={`countersign channel retry ${channel.name}`} className="max-md:hidden" />
          <span className="flex-1" />
          <Button busy={busy === 'all'} onClick={() => void retry()}>
            Retry all
          </Button>
          <Button look="quiet" onClick={() => setDropping('all')}>
            Drop all
          </Button>
        </div>
      )}
      {grouped(letters).map(group => (
        <section key={group.problem} aria-label={group.problem}>
          <h2 className="foreign border-b bg-muted px-4 py-1.5 text-xs md:px-6">
            <b className="tabular-nums">{group.letters.length}</b> <Foreign text={group.problem} />
          </h2>
          <ul className="divide-y border-b">
            {group.letters.map(letter => (
              <li key={letter.id} className="grid gap-x-4 gap-y-1 px-4 py-2 sm:grid-cols-[minmax(0,1fr)_auto] md:px-6">
                <div className="min-w-0 text-xs">
                  <p className="text-sm">
                    {letter.recipient && <Foreign text={`${letter.recipient} `} className="font-medium" />}
                    <span className="text-muted-fg">was not told {UNTOLD[letter.moment]}</span>
                  </p>
                  <Link
                    to="/invocations/$invocation"
                    params={{ invocation: letter.invocation_id }}
                    className="block truncate font-mono text-primary underline"
                  >
                    {letter.invocation_id}
                  </Link>
                  <p className="text-muted-fg">
                    {counted(letter.attempts, 'attempt')}
                    {letter.ended_at && (
                      <>
                        {' '}
                        · given up <When at={letter.ended_at} />
                      </>
                    )}
                  </p>
                  <Copy text={letter.id} />
                </div>
                {mayManage && (
                  <div className="flex items-center gap-1 self-start">
                    <Button busy={busy === letter.id} aria-label={`Retry ${letter.id}`} onClick={() => void retry(letter)}>
                      Retry
                    </Button>
                    <Button look="quiet" aria-label={`Drop ${letter.id}`} onClick={() => setDropping(letter)}>
                      Drop
                    </Button>
                  </div>
                )}
              </li>
            ))}
          </ul>
        </section>
      ))}
      <More query={dead} />
      {dropping && (
        <FormDialog
          title={dropping === 'all' ? `Drop all dead letters of ${channel.name}` : 'Drop a dead letter'}
          verb="Drop"
          look="danger"
          onClose={() => setDropping(undefined)}
          send={async () => {
            const { dropped } = await dropNotices(channel.id, dropping === 'all' ? undefined : dropping.id)
            setDropping(undefined)
            await done(`${counted(dropped, 'dead letter')} dropped.`)
          }}
        >
          <p>Nobody is told of it any more. The call itself stays as it is.</p>
          <Copy
            text={['countersign channel drop', channel.name, dropping !== 'all' && dropping.id].filter(Boolean).join(' ')}
            className="max-w-full"
          />
        </FormDialog>
      )}
    </div>
  )
}
