// The first steps after the first start, until they are done or dismissed.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, CircleDashed } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { Button, Copy, cx } from '@/components/ui'
import { sourcesQuery } from '@/features/sources/queries'
import { meQuery } from '@/lib/me'
import { useNotifications } from '@/lib/notice'
import { sessionsQuery } from '@/lib/sessions'
import { usersQuery } from '@/lib/users'
import { channelsQuery } from '@/lib/waiting'
import { type Call, type StepName, stepsDone } from './model'

const KEY = 'first-steps'
const linkClass = 'font-medium text-primary underline'

export function FirstSteps({ calls }: { calls: readonly Call[] }) {
  const [isDismissed, setDismissed] = useState(() => localStorage.getItem(KEY) === 'dismissed')
  const me = useQuery(meQuery).data
  const [sessions, sources, users, channels] = [
    useInfiniteQuery(sessionsQuery),
    useQuery(sourcesQuery),
    useQuery(usersQuery),
    useQuery(channelsQuery),
  ]
  const { state, ask } = useNotifications()
  const isKnown = [sessions, sources, users, channels].every(query => query.isFetched) && !!me
  // Whoever may not change anything has no steps to take.
  if (isDismissed || !isKnown || !me.permissions.includes('manage_policy')) return null
  const done = stepsDone({
    calls,
    sessions: sessions.data?.pages.flatMap(page => page.items) ?? [],
    sources: sources.data ?? [],
    users: users.data ?? [],
    channels: channels.data ?? [],
    me: me.principal,
    isNotified: state === 'on',
  })
  const count = Object.values(done).filter(Boolean).length
  if (count === Object.keys(done).length) return null
  return (
    <section aria-labelledby="first-steps" className="rounded-lg border bg-panel p-4">
      <div className="flex flex-wrap items-baseline justify-between gap-2">
        <h2 id="first-steps" className="font-semibold">
          First steps <span className="font-normal text-muted-fg">{`${count} of ${Object.keys(done).length} done`}</span>
        </h2>
        <Button
          look="quiet"
          className="min-h-7"
          onClick={() => {
            localStorage.setItem(KEY, 'dismissed')
            setDismissed(true)
          }}
        >
          Dismiss
        </Button>
      </div>
      <ol className="mt-2 grid gap-3 lg:grid-cols-2">
        <Step name="agent" done={done} title="Connect an agent" text="Its calls are decided, held and recorded from then on.">
          <Copy text="countersign connect claude-code --write" />
          <a className={linkClass} href="/docs/guides/agents">
            Other agents
          </a>
        </Step>
        <Step name="source" done={done} title="Add a source" text="An MCP server, whose tools become actions with modes and receipts.">
          <Link to="/sources" className={linkClass}>
            Sources
          </Link>
          <Copy text="countersign source add --help" />
        </Step>
        <Step name="approver" done={done} title="Invite an approver" text="Somebody beside you who may answer calls that wait.">
          <Link to="/settings" search={{ tab: 'members' }} className={linkClass}>
            Members
          </Link>
          <Copy text="countersign user create NAME --role approver" />
        </Step>
        <Step name="notifications" done={done} title="Turn on notifications" text="In this browser, or by a channel, such as mail.">
          {state === 'off' && (
            <Button className="min-h-7" onClick={() => void ask()}>
              Notify me here
            </Button>
          )}
          <Link to="/settings" search={{ tab: 'channels' }} className={linkClass}>
            Channels
          </Link>
        </Step>
      </ol>
    </section>
  )
}

function Step({
  name,
  done,
  title,
  text,
  children,
}: {
  name: StepName
  done: Record<StepName, boolean>
  title: string
  text: string
  children: ReactNode
}) {
  const isDone = done[name]
  const Icon = isDone ? CircleCheck : CircleDashed
  return (
    <li className="flex min-w-0 gap-3">
      <Icon aria-hidden className={cx('mt-0.5 size-5 shrink-0', isDone ? 'text-ok' : 'text-muted-fg')} />
      <div className="min-w-0">
        <p className={cx('font-medium', isDone && 'text-muted-fg line-through')}>
          {title}
          {isDone && <span className="sr-only"> (done)</span>}
        </p>
        {!isDone && (
          <>
            <p className="text-muted-fg">{text}</p>
            <p className="mt-1 flex flex-wrap items-center gap-x-4 gap-y-1">{children}</p>
          </>
        )}
      </div>
    </li>
  )
}
