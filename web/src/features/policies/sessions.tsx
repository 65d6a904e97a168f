// Sessions: where agents work, and what waits in each.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { Asked, More } from '@/components/list-page'
import { Button, Copy, cx, Empty, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { rank } from '@/lib/search'
import { sessionsQuery } from '@/lib/sessions'
import { spacesQuery } from '@/lib/spaces'
import { Select, TabHead, Who } from './parts'
import { pendingCallsQuery } from './queries'
import { useSteady } from './use-steady'

const route = getRouteApi('/policies/sessions')

export function Sessions() {
  const { q = '', state } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/sessions' })
  // Sessions begin and end without an event.
  const sessions = useInfiniteQuery({ ...sessionsQuery, refetchInterval: 30_000 })
  const pending = useQuery(pendingCallsQuery())
  const spaces = useQuery(spacesQuery)
  const listed = sessions.data?.pages.flatMap(page => page.items)
  const { items, fresh, show } = useSteady(listed, 'sessions')
  const rows = items.filter(
    session =>
      rank(`${session.title} ${session.id} ${session.created_by}`, q) > 0 && (!state || (state === 'ended') === !!session.ended_at),
  )
  const waiting = (id: string) => pending.data?.filter(call => call.session_id === id).length ?? 0
  return (
    <>
      <TabHead name="Sessions" verbs={<Copy text="countersign session list" />}>
        The working context of one agent, or of a person at the command line. Ending one stops its token at once.
      </TabHead>
      <div className="flex flex-wrap gap-2 pb-3">
        <input
          type="search"
          aria-label="Filter"
          placeholder="Filter"
          value={q}
          onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
          className={cx(fieldClass, 'sm:w-64')}
        />
        <Select
          label="State"
          value={state ?? ''}
          onChange={value => void navigate({ search: old => ({ ...old, state: value || undefined }), replace: true })}
          options={[
            ['', 'open or ended'],
            ['open', 'open'],
            ['ended', 'ended'],
          ]}
          className="sm:w-44"
        />
      </div>
      <Asked query={sessions} />
      {sessions.isPending && <Loading />}
      {fresh > 0 && (
        <p className="pb-2 text-center">
          <Button onClick={show}>Show what is new ({fresh})</Button>
        </p>
      )}
      {sessions.data && rows.length === 0 && (
        <Empty title={q || state ? 'No session is like that' : 'There is no session yet'}>
          <Copy text="countersign session create --title 'nightly triage'" />
        </Empty>
      )}
      <ul aria-label="Sessions" className="divide-y overflow-hidden rounded-md border bg-panel empty:hidden">
        {rows.map(session => {
          const count = waiting(session.id)
          return (
            <li key={session.id}>
              <Link
                to="/policies/sessions/$session"
                params={{ session: session.id }}
                className={cx(
                  'grid items-center gap-x-4 gap-y-1 px-3 py-2.5 hover:bg-muted lg:grid-cols-[minmax(0,1fr)_14rem_8rem]',
                  !!session.ended_at && 'text-muted-fg',
                )}
              >
                <span className="min-w-0">
                  <Foreign text={session.title} className="block truncate font-medium" />
                  <span className="block truncate font-mono text-xs text-muted-fg">{session.id}</span>
                </span>
                <span className="min-w-0 text-xs text-muted-fg">
                  <span className="block truncate">
                    in <Foreign text={spaces.data?.find(each => each.id === session.space_id)?.name ?? session.space_id} /> ·{' '}
                    {session.attendance}
                  </span>
                  <span className="block truncate">{session.automation_id ?? <Who id={session.created_by} />}</span>
                </span>
                <span className="text-xs lg:text-right">
                  {session.ended_at ? (
                    <>
                      ended <When at={session.ended_at} />
                    </>
                  ) : (
                    <When at={session.created_at} />
                  )}
                  {count > 0 && <span className="ml-2 font-medium text-warn lg:ml-0 lg:block">◷ {count} pending</span>}
                </span>
              </Link>
            </li>
          )
        })}
      </ul>
      <More query={sessions}>Show more</More>
    </>
  )
}
