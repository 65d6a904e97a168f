// What people were told, by actions and by the server itself, and who told it.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { Asked, Rows } from '@/components/list-page'
import { PageHead } from '@/components/page-head'
import { Value } from '@/components/params'
import { Button, Copy, Empty, Foreign, Loading, When } from '@/components/ui'
import { Asker } from '@/features/inbox/card'
import { invocationQuery } from '@/features/inbox/queries'
import { meQuery } from '@/lib/me'
import { markRead, readUpTo, useUnread } from '@/lib/notifications'
import { type Message, notificationQuery, notificationsQuery } from './queries'

const route = getRouteApi('/notifications')

export function Notifications() {
  const { notification } = route.useSearch()
  const navigate = useNavigate({ from: '/notifications' })
  const me = useQuery(meQuery).data
  return (
    <div className="flex h-full flex-col">
      <PageHead title="Notifications" command="countersign notification list" />
      {notification ? (
        <Alone id={notification} onAll={() => void navigate({ search: {} })} />
      ) : me ? (
        <All principal={me.principal} />
      ) : (
        <Loading />
      )}
    </div>
  )
}

function All({ principal }: { principal: string }) {
  const client = useQueryClient()
  const read = useInfiniteQuery(notificationsQuery)
  const unread = useUnread()
  const items = read.data?.pages.flatMap(page => page.items) ?? []
  const newest = items[0]?.id ?? ''
  // What was new when the page was opened says so for as long as it is open.
  const [before] = useState(() => readUpTo(principal))
  // What this browser keeps: they have been seen.
  useEffect(() => markRead(client, principal, newest), [client, principal, newest])
  return (
    <>
      {read.data && !read.isFetching && unread.newest > newest && (
        <Button look="quiet" className="rounded-none border-b text-primary" onClick={() => void read.refetch()}>
          <span aria-live="polite">{unread.count} new</span>
        </Button>
      )}
      <div className="min-h-0 flex-1 overflow-auto">
        <Rows query={read} isEmpty={items.length === 0} empty={<Nothing />}>
          <ul aria-label="Notifications" className="divide-y">
            {items.map(item => (
              <Row key={item.id} item={item} isNew={item.id > before} />
            ))}
          </ul>
        </Rows>
      </div>
    </>
  )
}

function Alone({ id, onAll }: { id: string; onAll: () => void }) {
  const read = useQuery(notificationQuery(id))
  return (
    <div className="min-h-0 flex-1 overflow-auto">
      <div className="border-b px-4 py-1 md:px-6">
        <Button look="quiet" onClick={onAll}>
          Show all
        </Button>
      </div>
      <Asked query={read} />
      {read.isPending && <Loading />}
      {read.data === null && <Empty title="There is no such message, or no longer" />}
      {read.data && (
        <ul aria-label="Notifications">
          <Row item={read.data} isAlone />
        </ul>
      )}
    </div>
  )
}

function Nothing() {
  return (
    <Empty title="Nobody was told anything yet">
      <p>What a step or an agent tells people with notify.send appears here, and so does what the server has to say itself.</p>
      <Link to="/automations/gallery" className="mt-3 inline-block text-primary underline">
        Begin with an automation that tells people
      </Link>
      <Copy text="countersign action invoke notify.send title='Hello' body='Lunch is ready.'" className="mt-3" />
    </Empty>
  )
}

function Row({ item, isNew = false, isAlone = false }: { item: Message; isNew?: boolean; isAlone?: boolean }) {
  return (
    <li className="px-4 py-3 md:px-6">
      <p className="flex flex-wrap items-baseline justify-between gap-x-4">
        <span className="min-w-0">
          <Foreign text={item.title} className="font-medium" />{' '}
          {isNew && <span className="rounded-full bg-primary px-1.5 text-[11px] leading-4 font-medium text-primary-fg">new</span>}
        </span>
        <span className="text-xs text-muted-fg tabular-nums">
          <When at={item.created_at} />
        </span>
      </p>
      {item.body && <Value value={item.body} />}
      {/* Who sent it comes a moment later: what is below does not move. */}
      <div className="min-h-7">{item.invocation_id ? <Sender invocation={item.invocation_id} /> : <FromServer text={item.body} />}</div>
      <p className="mt-1 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs">
        <Copy text={item.id} />
        {item.invocation_id && (
          <Link to="/invocations/$invocation" params={{ invocation: item.invocation_id }} className="text-primary underline">
            The call
          </Link>
        )}
        {!isAlone && (
          <Link to="/notifications" search={{ notification: item.id }} className="text-primary underline">
            This one alone
          </Link>
        )}
      </p>
    </li>
  )
}

/** The step or the session that sent it, as the inbox names who asks. */
function Sender({ invocation }: { invocation: string }) {
  const { data } = useQuery({ ...invocationQuery(invocation), retry: false })
  return data ? <Asker item={data} /> : null
}

const IDS = /\b(?:run|aut)_[0-9a-z]{26}\b/g

/** The server names what it speaks of by id. */
function FromServer({ text }: { text: string }) {
  return (
    <p className="mt-2 flex flex-wrap gap-x-4 text-sm text-muted-fg">
      the server itself
      {[...new Set(text.match(IDS))].map(id =>
        id.startsWith('run_') ? (
          <Link key={id} to="/runs/$run" params={{ run: id }} className="text-primary underline">
            The run
          </Link>
        ) : (
          <Link key={id} to="/automations/$automation" params={{ automation: id }} className="text-primary underline">
            The automation
          </Link>
        ),
      )}
    </p>
  )
}
