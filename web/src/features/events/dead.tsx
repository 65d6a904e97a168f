// Dead letters: notices to channels that were given up. Each is delivered once more, or dropped.
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Empty, Failed, Foreign, Loading, When } from '@/components/ui'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { channelsQuery } from '@/lib/waiting'
import { grouped } from './model'
import { deadQuery, dropDead, retryDead } from './queries'

type Letter = Schemas['DeliveryView']

/** Of one channel, or of all. */
export function DeadLetters({ channel }: { channel?: string }) {
  const client = useQueryClient()
  const dead = useInfiniteQuery(deadQuery(channel))
  const channels = useQuery(channelsQuery)
  const mayManage = useMay().includes('manage_policy')
  const { say } = useToasts()
  const { error, busy, run } = useSending<string>()
  const [dropping, setDropping] = useState<{ channel: string; letter?: Letter }>()
  const letters = dead.data?.pages.flatMap(page => page.items) ?? []
  const nameOf = (id: string) => channels.data?.find(each => each.id === id)?.name ?? id
  const owners = [...new Set(letters.map(letter => letter.channel))]
  const done = async (words: string) => {
    say(words)
    await Promise.all([client.invalidateQueries({ queryKey: ['dead'] }), client.invalidateQueries({ queryKey: channelsQuery.queryKey })])
  }
  const retry = (of: string, letter?: Letter) =>
    run(letter?.id ?? of, async () => {
      const { retried } = await retryDead(of, letter?.id)
      await done(`${counted(retried, 'dead letter')} on the way once more.`)
    })
  if (dead.isPending) return <Loading />
  return (
    <div>
      {dead.error && <Failed error={dead.error as ApiError} retry={() => void dead.refetch()} />}
      {error && <Failed error={error} />}
      {letters.length === 0 && !dead.error && (
        <Empty title="No dead letters">
          {channel ? 'What was to be told is told, or still tried.' : 'A notice that a channel does not take within an hour ends here.'}
        </Empty>
      )}
      {mayManage &&
        owners.map(of => (
          <div key={of} className="flex flex-wrap items-center gap-2 border-b px-4 py-2 md:px-6">
            <Foreign text={nameOf(of)} className="font-medium" />
            <Copy text={`countersign channel retry ${nameOf(of)}`} className="max-md:hidden" />
            <span className="flex-1" />
            <Button busy={busy === of} onClick={() => void retry(of)}>
              Retry all
            </Button>
            <Button look="quiet" onClick={() => setDropping({ channel: of })}>
              Drop all
            </Button>
          </div>
        ))}
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
                    <Foreign text={nameOf(letter.channel)} className="font-medium" />
                    {letter.recipient && <Foreign text={` to ${letter.recipient}`} />}{' '}
                    <span className="text-muted-fg">
                      {
                        {
                          pending: 'was not told that it waits',
                          decided: 'was not told that it was decided',
                          in_doubt: 'was not told that its outcome is unknown',
                          ended: 'was not told how it ended',
                        }[letter.moment]
                      }
                    </span>
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
                    <Button busy={busy === letter.id} aria-label={`Retry ${letter.id}`} onClick={() => void retry(letter.channel, letter)}>
                      Retry
                    </Button>
                    <Button look="quiet" aria-label={`Drop ${letter.id}`} onClick={() => setDropping({ channel: letter.channel, letter })}>
                      Drop
                    </Button>
                  </div>
                )}
              </li>
            ))}
          </ul>
        </section>
      ))}
      {dead.hasNextPage && (
        <div className="p-4 text-center">
          <Button busy={dead.isFetchingNextPage} onClick={() => void dead.fetchNextPage()}>
            Older
          </Button>
        </div>
      )}
      {dropping && (
        <FormDialog
          title={dropping.letter ? 'Drop a dead letter' : `Drop all dead letters of ${nameOf(dropping.channel)}`}
          verb="Drop"
          look="danger"
          onClose={() => setDropping(undefined)}
          send={async () => {
            const { dropped } = await dropDead(dropping.channel, dropping.letter?.id)
            setDropping(undefined)
            await done(`${counted(dropped, 'dead letter')} dropped.`)
          }}
        >
          <p>Nobody is told of it any more. The call itself stays as it is.</p>
          <Copy
            text={['countersign channel drop', nameOf(dropping.channel), dropping.letter?.id].filter(Boolean).join(' ')}
            className="max-w-full"
          />
        </FormDialog>
      )}
    </div>
  )
}
