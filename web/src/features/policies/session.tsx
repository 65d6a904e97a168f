// One session: who works in it, what waits, what it may use without asking, and how it is stopped.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Invocation, Session as SessionView } from '@/api/types'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Fact, Facts } from '@/components/facts'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { StatusBadge, TierBadge } from '@/components/status'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Failed, Foreign, fieldClass, Loading, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { meQuery, useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { budgetsOf, quoted } from './model'
import { BudgetBar, Labelled, submitted, Until, Who } from './parts'
import { changed, denyCall, endSession, grantsQuery, pendingCallsQuery, sessionCallsQuery, sessionQuery, spaceQuery } from './queries'

const route = getRouteApi('/policies/sessions/$session')

export function Session() {
  const { session: id } = route.useParams()
  const found = useQuery(sessionQuery(id))
  if (found.error) return <Failed error={found.error as ApiError} retry={() => void found.refetch()} />
  return found.data ? <Detail session={found.data} /> : <Loading />
}

function Detail({ session }: { session: SessionView }) {
  const me = useQuery(meQuery)
  const may = useMay()
  const space = useQuery(spaceQuery(session.space_id))
  const pending = useQuery(pendingCallsQuery(session.id))
  const calls = useQuery(sessionCallsQuery(session.id))
  const grants = useInfiniteQuery(grantsQuery({ state: 'active', session: session.id }))
  const [open, setOpen] = useState<'deny' | 'end'>()
  const waiting = pending.data ?? []
  const live = grants.data?.pages.flatMap(page => page.items).filter(grant => grant.state === 'active') ?? []
  const mayEnd = !session.ended_at && (may.includes('manage_identity') || me.data?.principal === session.created_by)
  return (
    <div className="py-4">
      <Link to="/policies/sessions" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Sessions
      </Link>
      <header className="mt-2 flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <div className="flex flex-wrap items-center gap-3">
            <span className={session.ended_at ? 'text-xs text-muted-fg' : 'text-xs font-medium text-ok'}>
              {session.ended_at ? '– ended' : '● open'}
            </span>
            <Copy text={session.id} />
          </div>
          <h2 className="mt-1 text-base font-semibold">
            <Foreign text={session.title} />
          </h2>
          <Copy text={`countersign session show ${session.id}`} />
        </div>
        <div className="flex flex-wrap gap-2">
          {may.includes('manage_policy') && !session.ended_at && (
            <Link
              to="/policies/kill-switch"
              search={{ scope: `session:${session.id}` }}
              className="inline-flex min-h-9 items-center rounded-md border bg-panel px-3 font-medium hover:bg-muted max-md:min-h-11"
            >
              Stop it…
            </Link>
          )}
          {mayEnd && (
            <Button look="danger" onClick={() => setOpen('end')}>
              End it…
            </Button>
          )}
        </div>
      </header>

      <Section
        title={`Pending${waiting.length > 0 ? `: ${waiting.length}` : ''}`}
        aside={
          waiting.length > 0 &&
          may.includes('approve') && (
            <Button look="danger" onClick={() => setOpen('deny')}>
              Cancel everything pending…
            </Button>
          )
        }
      >
        <Asked query={pending} />
        {pending.data && waiting.length === 0 && <p className="text-muted-fg">Nothing waits for a person.</p>}
        <Calls calls={waiting} />
      </Section>

      <Section
        title="Live grants"
        aside={<Copy text={`countersign grant give files.write_text --session ${session.id} --calls 5`} className="max-sm:hidden" />}
      >
        <Asked query={grants} />
        {grants.data && live.length === 0 && <p className="text-muted-fg">It has none.</p>}
        <ul className="divide-y rounded-md border bg-panel empty:hidden">
          {live.map(grant => (
            <li key={grant.id}>
              <Link
                to="/policies/grants/$grant"
                params={{ grant: grant.id }}
                className="grid items-center gap-x-4 px-3 py-2 hover:bg-muted sm:grid-cols-[minmax(0,1fr)_13rem_6rem]"
              >
                <span className="min-w-0">
                  <Foreign text={grant.covers} className="block truncate font-mono text-[13px] font-medium" />
                  {!grant.scope.startsWith('session:') && (
                    <span className="text-xs text-muted-fg">of {grant.scope === 'org' ? 'everybody in the org' : grant.scope}</span>
                  )}
                </span>
                <span>
                  {budgetsOf(grant).map(budget => (
                    <BudgetBar key={budget.name} budget={budget} />
                  ))}
                </span>
                <span className="text-xs text-muted-fg">
                  <Until at={grant.expires_at} />
                </span>
              </Link>
            </li>
          ))}
        </ul>
      </Section>

      <Section title="Who and where">
        <Facts>
          <Fact name="Created by">
            <Who id={session.created_by} /> <When at={session.created_at} />
          </Fact>
          {session.owner_id && (
            <Fact name="Acts for">
              <Who id={`user:${session.owner_id}`} />
            </Fact>
          )}
          <Fact name="Space">
            <Link to="/policies/spaces/$space" params={{ space: session.space_id }} className="text-primary underline">
              <Foreign text={space.data?.name ?? session.space_id} />
            </Link>
          </Fact>
          <Fact name="Attendance">
            {session.attendance === 'interactive' ? 'interactive: somebody watches' : 'unattended: approvals may take longer'}
          </Fact>
          {session.automation_id && (
            <Fact name="Automation">
              <Link to="/automations/$automation" params={{ automation: session.automation_id }} className="text-primary underline">
                {session.automation_id}
              </Link>
              {' · '}
              <Link to="/policies" search={{ automation: session.automation_id, as: session.id }} className="text-primary underline">
                its modes
              </Link>
            </Fact>
          )}
          <Fact name="Sources">{session.sources ? line(session.sources.join(', ')) || 'none' : 'all'}</Fact>
          {session.ended_at && (
            <Fact name="Ended">
              <When at={session.ended_at} />
            </Fact>
          )}
          {!session.ended_at && (
            <Fact name="Modes">
              <Link to="/policies" search={{ as: session.id }} className="text-primary underline">
                What happens to its calls
              </Link>
            </Fact>
          )}
        </Facts>
      </Section>

      <Section
        title="Its last calls"
        aside={
          <Link to="/receipts" search={{ session: session.id }} className="text-xs text-primary underline">
            all receipts{calls.data?.total != null && ` of ${counted(calls.data.total, 'call')}`}
          </Link>
        }
      >
        <Asked query={calls} />
        {calls.data?.items.length === 0 && <p className="text-muted-fg">None yet.</p>}
        <Calls calls={calls.data?.items ?? []} />
      </Section>
      {open === 'end' && <EndDialog session={session} onClose={() => setOpen(undefined)} />}
      {open === 'deny' && <CancelDialog calls={waiting} onClose={() => setOpen(undefined)} />}
    </div>
  )
}

function Calls({ calls }: { calls: readonly Invocation[] }) {
  return (
    <ul className="divide-y rounded-md border bg-panel empty:hidden">
      {calls.map(call => (
        <li key={call.id}>
          <Link
            to="/"
            search={{ tab: call.status === 'pending' ? undefined : 'decided', call: call.id }}
            className="grid items-baseline gap-x-4 px-3 py-2 hover:bg-muted sm:grid-cols-[8rem_minmax(0,1fr)_auto]"
          >
            <StatusBadge status={call.status} brief />
            <span className="min-w-0 truncate">
              <code className="text-[13px]">{call.action}</code> <TierBadge tier={call.tier} />
            </span>
            <span className="text-xs text-muted-fg">
              <When at={call.created_at} />
            </span>
          </Link>
        </li>
      ))}
    </ul>
  )
}

function EndDialog({ session, onClose }: { session: SessionView; onClose: () => void }) {
  const client = useQueryClient()
  const { say } = useToasts()
  return (
    <FormDialog
      title={`End ${line(session.title)}`}
      verb="End it"
      look="danger"
      onClose={onClose}
      send={async () => {
        await endSession(session.id)
        onClose()
        say(`${line(session.title)} has ended.`)
        await changed(client)
      }}
    >
      <p>The token of its agent stops working at once, and nothing can be invoked in it any more. An ended session stays ended.</p>
      <Copy text={`countersign session end ${session.id}`} />
    </FormDialog>
  )
}

/** Each call is denied by itself, so each says what became of it. */
function CancelDialog({ calls, onClose }: { calls: readonly Invocation[]; onClose: () => void }) {
  const client = useQueryClient()
  // Those that were there when it was opened: others may come and go meanwhile.
  const [shown] = useState(calls)
  const [reason, setReason] = useState('')
  const [results, setResults] = useState<ReadonlyMap<string, string>>(new Map())
  const { error, busy, run } = useSending()
  const isDone = results.size === shown.length && !busy
  const cancel = () =>
    run('it', async () => {
      for (const call of shown) {
        const result = await denyCall(call.id, reason.trim() || undefined).then(
          () => 'denied',
          (cause: unknown) => {
            // What was decided meanwhile is no reason to leave the rest.
            if (cause instanceof ApiError && cause.problem.status >= 400 && cause.problem.status < 500) return cause.problem.detail
            throw cause
          },
        )
        setResults(all => new Map(all).set(call.id, result))
      }
      await changed(client)
    })
  return (
    <Dialog title={`Cancel ${counted(shown.length, 'pending call')}`} onClose={onClose} wide>
      <form onSubmit={submitted(() => void cancel())}>
        <p className="mt-2 text-muted-fg">Each is denied, in your name. The session stays open.</p>
        <div className="mt-3">
          <Labelled label="Why? The agent reads it.">
            <input
              value={reason}
              maxLength={2000}
              onChange={event => setReason(event.target.value)}
              placeholder="optional"
              className={fieldClass}
            />
          </Labelled>
        </div>
        <ul className="mt-3 max-h-[40vh] divide-y overflow-auto rounded-md border">
          {shown.map(call => (
            <li key={call.id} className="flex flex-wrap items-center gap-3 px-3 py-2">
              <TierBadge tier={call.tier} />
              <code className="min-w-0 flex-1 truncate text-[13px]">{call.action}</code>
              <span className="font-mono text-xs text-muted-fg max-sm:hidden">{call.id}</span>
              {results.has(call.id) && <Foreign text={results.get(call.id) ?? ''} className="text-xs font-medium" />}
            </li>
          ))}
        </ul>
        {error && <Failed error={error} />}
        <DialogFoot>
          <Copy
            text={`countersign deny ${shown.map(call => call.id).join(' ')}${reason.trim() ? ` --reason ${quoted(reason.trim())}` : ''}`}
            className="mr-auto max-w-full sm:max-w-72"
          />
          <Button look="quiet" onClick={onClose}>
            {isDone ? 'Close' : 'Leave them'}
          </Button>
          {!isDone && (
            <Button look="danger" type="submit" busy={!!busy}>
              Deny {shown.length}
            </Button>
          )}
        </DialogFoot>
      </form>
    </Dialog>
  )
}
