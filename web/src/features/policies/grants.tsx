// Grants: what runs without asking, within which bounds, how much of it is used, and what agents ask for.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { Pre } from '@/components/changes'
import { Fact, Facts } from '@/components/facts'
import { FormDialog } from '@/components/form-dialog'
import { Asked, More } from '@/components/list-page'
import { TierBadge } from '@/components/status'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Empty, Foreign, Loading } from '@/components/ui'
import { actionQuery } from '@/lib/actions'
import { json } from '@/lib/clean'
import { counted, span } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { GiveDialog } from './give-grant'
import { budgetsOf, scopeOf } from './model'
import { BudgetBar, GrantStateWord, Select, TabHead, Until, Who, Whose } from './parts'
import { changed, endGrant, type GrantVerb, grantsQuery } from './queries'
import { useSessions } from './use-sessions'
import { useSteady } from './use-steady'

const route = getRouteApi('/policies/grants')
const STATES: readonly Schemas['GrantStateName'][] = ['active', 'requested', 'used_up', 'revoked', 'expired', 'refused']
const WORDS: Record<string, string> = {
  active: 'active',
  requested: 'requested',
  used_up: 'used up',
  revoked: 'revoked',
  expired: 'expired',
  refused: 'denied',
}

export function Grants() {
  const { state: named, session } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/grants' })
  const state = STATES.find(each => each === named)
  const filter = { state, session }
  const grants = useInfiniteQuery(grantsQuery(filter))
  const requests = useInfiniteQuery(grantsQuery({ state: 'requested', session }))
  // Without a filter, requests stand by themselves.
  const listed = grants.data?.pages.flatMap(page => page.items).filter(grant => state || grant.state !== 'requested')
  const { items: rows, isGone, ...list } = useSteady(listed, JSON.stringify(filter))
  const asked = useSteady(
    requests.data?.pages.flatMap(page => page.items),
    session ?? '',
  )
  const fresh = list.fresh + (state ? 0 : asked.fresh)
  const { sessions, titleOf } = useSessions()
  const mayAnswer = useMay().includes('approve')
  const [isGiving, setGiving] = useState(false)
  return (
    <>
      <TabHead
        name="Grants"
        verbs={
          <>
            <Copy text="countersign grant list" />
            {mayAnswer && (
              <Button look="primary" onClick={() => setGiving(true)}>
                Give a grant…
              </Button>
            )}
          </>
        }
      >
        A grant replaces approvals, within its bounds. It never overrides a denial, drift, a black space or a kill switch, and never covers
        R4.
      </TabHead>
      <div className="flex flex-wrap gap-2 pb-3">
        <Select
          label="State"
          value={state ?? ''}
          onChange={value => void navigate({ search: old => ({ ...old, state: value || undefined }), replace: true })}
          options={[['', 'in any state'], ...STATES.map(each => [each, WORDS[each] ?? each] as const)]}
          className="sm:w-44"
        />
        <Select
          label="Session"
          value={session ?? ''}
          onChange={value => void navigate({ search: old => ({ ...old, session: value || undefined }), replace: true })}
          options={[['', 'of all sessions'], ...sessions.map(each => [each.id, titleOf(each.id)] as const)]}
          className="sm:w-64"
        />
      </div>
      {fresh > 0 && (
        <p className="pb-2 text-center">
          <Button
            onClick={() => {
              list.show()
              asked.show()
            }}
          >
            Show what changed ({fresh})
          </Button>
        </p>
      )}
      {!state && asked.items.length > 0 && (
        <section aria-label="Requests of agents" className="mb-4">
          <h2 className="mb-2 text-xs font-semibold tracking-wide text-muted-fg uppercase">Requested by agents</h2>
          <ul className="space-y-2">
            {asked.items.map(grant => (
              <li key={grant.id}>
                <Request grant={grant} mayAnswer={mayAnswer} isOver={asked.isGone(grant.id)} />
              </li>
            ))}
          </ul>
        </section>
      )}
      <Asked query={grants} />
      {grants.isPending && <Loading />}
      {grants.data && rows.length === 0 && (
        <Empty title={state ? `No grant is ${WORDS[state]}` : 'No grant was given'}>
          Give one here, with an approval in the inbox (G), or:
          <Copy text="countersign grant give files.write_text --org --calls 5 --expires 2h" className="mt-2" />
        </Empty>
      )}
      <ul aria-label="Grants" className="divide-y overflow-hidden rounded-md border bg-panel empty:hidden">
        {rows.map(grant => (
          <li key={grant.id} className={cx(isGone(grant.id) && 'opacity-50')}>
            <Row grant={grant} mayAnswer={mayAnswer && !isGone(grant.id)} />
          </li>
        ))}
      </ul>
      <More query={grants}>Show more</More>
      {isGiving && (
        <GiveDialog
          session={session}
          onClose={() => setGiving(false)}
          onGiven={grant => void navigate({ to: '/policies/grants/$grant', params: { grant: grant.id } })}
        />
      )}
    </>
  )
}

function Row({ grant, mayAnswer }: { grant: Schemas['GrantView']; mayAnswer: boolean }) {
  const budgets = budgetsOf(grant)
  const isLive = grant.state === 'active'
  return (
    <div className="grid items-center gap-x-4 gap-y-2 px-3 py-2.5 lg:grid-cols-[minmax(0,1fr)_13rem_8rem_6rem]">
      <div className="min-w-0">
        <Link to="/policies/grants/$grant" params={{ grant: grant.id }} className="font-mono text-[13px] font-medium hover:underline">
          <Foreign text={grant.covers} />
        </Link>
        <p className="truncate text-xs text-muted-fg">
          for <Whose scope={grant.scope} title={grant.session_title} />
          {grant.condition && ' · with a condition'}
        </p>
      </div>
      <div className="min-w-0 space-y-1">
        {budgets.map(budget => (
          <BudgetBar key={budget.name} budget={budget} />
        ))}
        {budgets.length === 0 && <p className="text-xs text-muted-fg">any number of calls</p>}
      </div>
      <p className="flex gap-3 text-xs lg:block">
        <GrantStateWord state={grant.state} />
        {isLive && (
          <span className="block text-muted-fg">
            <Until at={grant.expires_at} />
          </span>
        )}
      </p>
      <div className="lg:text-right">{isLive && mayAnswer && <EndButton grant={grant} verb="revoke" />}</div>
    </div>
  )
}

/** What an agent asks for: its words are marked as its own. */
export function Request({ grant, mayAnswer, isOver }: { grant: Schemas['GrantView']; mayAnswer: boolean; isOver?: boolean }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const { error, busy, run } = useSending<GrantVerb>()
  const [isAsking, setAsking] = useState(false)
  const refuse = () =>
    void run('refuse', async () => {
      await endGrant(grant.id, 'refuse')
      say(`The request for ${grant.covers} is denied.`)
      await changed(client)
    })
  return (
    <div className={cx('rounded-md border bg-panel p-3', isOver ? 'text-muted-fg' : 'border-warn')}>
      <div className="flex flex-wrap items-baseline justify-between gap-2">
        <p className="min-w-0">
          <Link to="/policies/grants/$grant" params={{ grant: grant.id }} className="font-mono text-[13px] font-medium hover:underline">
            <Foreign text={grant.covers} />
          </Link>{' '}
          for <Whose scope={grant.scope} title={grant.session_title} />: {callsOf(grant)}
          {grant.sum_max && `, up to ${sumOf(grant.sum_max)}`}
          {grant.condition && ', with a condition'}, for {span(grant.lifetime_seconds)}
        </p>
        <span className="text-xs text-muted-fg">
          <Until at={grant.expires_at} /> to answer
        </span>
      </div>
      {grant.requested_by && (
        <p className="mt-1 text-sm">
          <span className="text-muted-fg">Asked for by</span> <Asker grant={grant} />
        </p>
      )}
      {grant.reason && (
        <p className="mt-1 text-sm">
          <span className="text-muted-fg">The agent’s own words:</span> “<Foreign text={grant.reason} />”
        </p>
      )}
      {error && <ErrorLine text={error.problem.detail} hint={error.problem.hint} />}
      {isOver ? (
        <p className="mt-1 text-xs">It no longer waits.</p>
      ) : mayAnswer ? (
        <div className="mt-2 flex flex-wrap gap-2">
          <Button look="primary" disabled={!!busy} onClick={() => setAsking(true)}>
            Approve…
          </Button>
          <Button look="danger" busy={busy === 'refuse'} disabled={!!busy} onClick={refuse}>
            Deny
          </Button>
        </div>
      ) : (
        <p className="mt-1 text-xs text-muted-fg">Somebody who may approve answers it.</p>
      )}
      {isAsking && (
        <Approve
          grant={grant}
          isOver={isOver}
          onClose={() => setAsking(false)}
          act={async () => {
            await endGrant(grant.id, 'approve')
            setAsking(false)
            say(`The grant for ${grant.covers} is given.`)
            await changed(client)
          }}
        />
      )}
    </div>
  )
}

const callsOf = (grant: Schemas['GrantView']): string =>
  grant.calls_max == null ? 'any number of calls' : counted(grant.calls_max, 'call')
const sumOf = (sum: Schemas['SumMaxView']): string => `${sum.max} of ${sum.of} in ${span(sum.per_seconds)}`

/** The session that asks, by its title, or who else it is. */
function Asker({ grant }: { grant: Schemas['GrantView'] }) {
  const { kind, id } = scopeOf(grant.requested_by ?? '')
  if (kind === 'agent') return <Whose scope={`session:${id}`} title={grant.session_title} />
  return <Who id={grant.requested_by ?? ''} />
}

/** All that a yes gives away, before it is given. */
function Approve({ grant, isOver, onClose, act }: ApproveProps) {
  const action = useQuery({ ...actionQuery(grant.covers), enabled: !grant.covers.includes('*') })
  const isWide = grant.scope === 'org'
  const isUnlimited = grant.calls_max == null && !grant.sum_max
  return (
    <FormDialog title={`Give the grant for ${grant.covers}`} verb="Give it" onClose={onClose} send={act} disabled={isOver}>
      <p>Until it ends, these calls run without a person being asked.</p>
      <Facts>
        <Fact name="Covers">
          <Foreign text={grant.covers} className="font-mono text-[13px]" /> {action.data && <TierBadge tier={action.data.tier} />}
        </Fact>
        <Fact name="For the calls of">
          <span className={cx(isWide && 'font-medium text-warn')}>
            <Whose scope={grant.scope} title={grant.session_title} />
          </span>
          {grant.space_id && (
            <>
              {' '}
              in the space <Foreign text={grant.space_id} />
            </>
          )}
        </Fact>
        <Fact name="Calls">
          <span className={cx(isUnlimited && 'font-medium text-warn')}>{callsOf(grant)}</span>
        </Fact>
        <Fact name="Sum">{grant.sum_max ? `up to ${sumOf(grant.sum_max)}` : 'not bounded'}</Fact>
        <Fact name="Params">{grant.condition ? <Pre text={json(grant.condition)} /> : 'any'}</Fact>
        <Fact name="Lasts">{span(grant.lifetime_seconds)} from now</Fact>
        <Fact name="Asked for by">{grant.requested_by ? <Asker grant={grant} /> : 'not known'}</Fact>
        {grant.reason && (
          <Fact name="The agent’s own words">
            “<Foreign text={grant.reason} />”
          </Fact>
        )}
      </Facts>
      {isOver && (
        <p role="alert" className="text-danger">
          It no longer waits.
        </p>
      )}
      <Copy text={`countersign grant approve ${grant.id}`} />
    </FormDialog>
  )
}
type ApproveProps = { grant: Schemas['GrantView']; isOver?: boolean; onClose: () => void; act: () => Promise<void> }

function ErrorLine({ text, hint }: { text: string; hint?: string | null }) {
  return (
    <p role="alert" className="mt-2 text-danger">
      <Foreign text={text} /> {hint && <Foreign text={hint} />}
    </p>
  )
}

export function EndButton({ grant, verb }: { grant: Schemas['GrantView']; verb: 'revoke' }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const [isAsking, setAsking] = useState(false)
  return (
    <>
      <Button look="danger" aria-label={`Revoke the grant for ${grant.covers}`} onClick={() => setAsking(true)}>
        Revoke
      </Button>
      {isAsking && (
        <FormDialog
          title={`Revoke the grant for ${grant.covers}`}
          verb="Revoke"
          look="danger"
          onClose={() => setAsking(false)}
          send={async () => {
            await endGrant(grant.id, verb)
            setAsking(false)
            say(`Revoked: the next call of ${grant.covers} needs approval again.`)
            await changed(client)
          }}
        >
          <p>It ends at once: the next call needs approval again. A revoked grant does not come back; another can be given.</p>
          <Copy text={`countersign grant revoke ${grant.id}`} />
        </FormDialog>
      )}
    </>
  )
}
