// Channels: where people are told of calls that wait, whether that works, and what could not be delivered.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleCheck, CircleX, Plus } from 'lucide-react'
import { useState } from 'react'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { Button, Copy, Empty, Failed, Foreign, Loading, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { counted, span } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { spacesQuery } from '@/lib/spaces'
import { channelsQuery } from '@/lib/waiting'
import { AddChannel } from './add-channel'
import { DeadNotices } from './dead-notices'
import { only, tells } from './model'
import { type Channel, channelKindsQuery, removeChannel, testChannel } from './queries'

export function Channels({ chosen, onChoose }: { chosen: string | undefined; onChoose: (channel: string | undefined) => void }) {
  const client = useQueryClient()
  const [channels, kinds] = [useQuery(channelsQuery), useQuery(channelKindsQuery)]
  const mayManage = useMay().includes('manage_policy')
  const [isAdding, setAdding] = useState(false)
  const [removing, setRemoving] = useState<Channel>()
  const done = () => client.invalidateQueries({ queryKey: channelsQuery.queryKey })
  const add = mayManage && kinds.data && (
    <Button look="primary" onClick={() => setAdding(true)}>
      <Plus aria-hidden className="size-4" /> Add a channel
    </Button>
  )
  return (
    <>
      <Asked query={channels} />
      <Asked query={kinds} />
      {channels.isPending && <Loading />}
      {channels.data?.length === 0 ? (
        <Empty title="Nobody is told of calls that wait">
          <p className="mb-3">A channel tells people where they look anyway. It decides nothing.</p>
          {add || <Copy text="countersign channel add --help" />}
        </Empty>
      ) : (
        <div className="flex justify-end px-4 py-3 md:px-6">{add}</div>
      )}
      {!!channels.data?.length && (
        <ul className="divide-y border-t">
          {channels.data.map(channel => (
            <Row
              key={channel.id}
              channel={channel}
              mayManage={mayManage}
              isOpen={chosen === channel.id || chosen === channel.name}
              onOpen={isOpen => onChoose(isOpen ? channel.name : undefined)}
              onRemove={() => setRemoving(channel)}
            />
          ))}
        </ul>
      )}
      {isAdding && kinds.data && (
        <AddChannel
          kinds={kinds.data}
          onClose={() => setAdding(false)}
          onAdded={async () => {
            setAdding(false)
            await done()
          }}
        />
      )}
      {removing && (
        <FormDialog
          title={`Remove ${removing.name}`}
          verb="Remove"
          look="danger"
          onClose={() => setRemoving(undefined)}
          send={async () => {
            await removeChannel(removing.id)
            setRemoving(undefined)
            await done()
          }}
        >
          <p>It is told nothing any more, also not what waits to be delivered. No call depends on it.</p>
          <Copy text={`countersign channel remove ${removing.name}`} />
        </FormDialog>
      )}
    </>
  )
}

function Row({
  channel,
  mayManage,
  isOpen,
  onOpen,
  onRemove,
}: {
  channel: Channel
  mayManage: boolean
  isOpen: boolean
  onOpen: (isOpen: boolean) => void
  onRemove: () => void
}) {
  const [spaces, kinds] = [useQuery(spacesQuery), useQuery(channelKindsQuery)]
  const { error, busy, run } = useSending()
  const [tested, setTested] = useState<{ delivered: boolean; problem?: string | null }>()
  return (
    <li className="px-4 py-3 md:px-6">
      <div className="grid gap-x-4 gap-y-1 sm:grid-cols-[minmax(0,1fr)_auto]">
        <div className="min-w-0">
          <p className="flex flex-wrap items-baseline gap-x-2">
            <Foreign text={channel.name} className="font-medium" />
            <span className="rounded bg-muted px-1.5 text-xs">{channel.kind}</span>
            {channel.dead > 0 && <span className="text-xs text-danger">{counted(channel.dead, 'dead letter')}</span>}
          </p>
          <p className="foreign font-mono text-xs">{line(tells(channel, kinds.data ?? []))}</p>
          <p className="text-xs text-muted-fg">
            {only(channel, spaces.data ?? [])} · {channel.after_seconds ? `after ${span(channel.after_seconds)}` : 'at once'} · added{' '}
            <When at={channel.created_at} />
          </p>
          <Copy text={`countersign channel show ${channel.name}`} label={channel.id} />
        </div>
        <div className="flex flex-wrap items-center gap-1 self-start">
          {mayManage && (
            <>
              <Button
                busy={!!busy}
                aria-label={`Test ${channel.name}`}
                onClick={() => void run('it', async () => setTested(await testChannel(channel.id)))}
              >
                Test
              </Button>
              <Button look="quiet" aria-label={`Remove ${channel.name}`} onClick={onRemove}>
                Remove
              </Button>
            </>
          )}
          <Button
            look="quiet"
            aria-expanded={isOpen}
            aria-label={isOpen ? `Hide dead letters of ${channel.name}` : `Dead letters of ${channel.name}`}
            onClick={() => onOpen(!isOpen)}
          >
            {isOpen ? 'Hide' : 'Dead letters'}
          </Button>
        </div>
      </div>
      <p aria-live="polite" className="mt-1 flex items-center gap-2 empty:mt-0">
        {tested &&
          (tested.delivered ? (
            <>
              <CircleCheck aria-hidden className="size-4 text-ok" /> The test message was delivered.
            </>
          ) : (
            <>
              <CircleX aria-hidden className="size-4 shrink-0 text-danger" />
              <Foreign text={`Not delivered: ${tested.problem ?? 'it did not say why'}`} />
            </>
          ))}
      </p>
      {error && <Failed error={error} />}
      {isOpen && (
        <div className="mt-3 rounded-md border">
          <DeadNotices channel={channel} />
        </div>
      )}
    </li>
  )
}
