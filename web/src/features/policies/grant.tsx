// One grant: its bounds, how much of it is used, and who gave it.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import type { ApiError } from '@/api/client'
import { Pre } from '@/components/changes'
import { Fact, Facts } from '@/components/facts'
import { useSpaceNames } from '@/components/spaces-field'
import { Copy, Failed, Foreign, Loading, Section, When } from '@/components/ui'
import { json } from '@/lib/clean'
import { span } from '@/lib/format'
import { useMay } from '@/lib/me'
import { EndButton, Request } from './grants'
import { budgetsOf } from './model'
import { BudgetBar, GrantStateWord, Who, Whose } from './parts'
import { grantQuery } from './queries'

const route = getRouteApi('/policies/grants/$grant')

export function Grant() {
  const { grant: id } = route.useParams()
  const found = useQuery(grantQuery(id))
  const space = useSpaceNames(found.data?.space_id ? [found.data.space_id] : null)
  const mayAnswer = useMay().includes('approve')
  if (found.error) return <Failed error={found.error as ApiError} retry={() => void found.refetch()} />
  if (!found.data) return <Loading />
  const grant = found.data
  const budgets = budgetsOf(grant)
  return (
    <div className="py-4">
      <Link to="/policies/grants" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Grants
      </Link>
      <header className="mt-2 flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <div className="flex flex-wrap items-center gap-3">
            <GrantStateWord state={grant.state} />
            <Copy text={grant.id} />
          </div>
          <h2 className="mt-1 font-mono text-base font-semibold">
            <Foreign text={grant.covers} />
          </h2>
        </div>
        {grant.state === 'active' && mayAnswer && <EndButton grant={grant} verb="revoke" />}
      </header>
      {grant.state === 'requested' && (
        <div className="mt-3">
          <Request grant={grant} mayAnswer={mayAnswer} />
        </div>
      )}
      <Section title="What is used" aside={<Copy text={`countersign grant show ${grant.id}`} />}>
        <div className="max-w-md space-y-3">
          {budgets.map(budget => (
            <BudgetBar key={budget.name} budget={budget} />
          ))}
          {grant.calls_max == null && <p>{grant.calls_used} calls, of any number.</p>}
        </div>
      </Section>
      <Section title="Its bounds">
        <Facts>
          <Fact name="For the calls of">
            <Whose scope={grant.scope} title={grant.session_title} />
          </Fact>
          <Fact name="In the space">
            {grant.space_id ? (
              <Link to="/policies/spaces/$space" params={{ space: grant.space_id }} className="text-primary underline">
                <Foreign text={space} />
              </Link>
            ) : (
              'any'
            )}
          </Fact>
          <Fact name={grant.state === 'requested' ? 'To be answered until' : 'Ends'}>
            <When at={grant.expires_at} />
          </Fact>
          {grant.state === 'requested' && <Fact name="Lasts">{span(grant.lifetime_seconds)} once it is given</Fact>}
        </Facts>
        {grant.condition && (
          <div className="mt-3">
            <p className="mb-1 text-xs text-muted-fg">The params must fit:</p>
            <Pre text={json(grant.condition)} />
          </div>
        )}
      </Section>
      <Section title="Who">
        <Facts>
          {grant.requested_by && (
            <Fact name="Requested by">
              <Who id={grant.requested_by} />
            </Fact>
          )}
          {grant.givers?.length ? (
            <Fact name="Given by">
              {grant.givers.map((giver, at) => (
                <span key={giver}>
                  {at > 0 && ', '}
                  <Who id={giver.includes(':') ? giver : `user:${giver}`} />
                </span>
              ))}{' '}
              {grant.given_at && <When at={grant.given_at} />}
            </Fact>
          ) : (
            grant.given_by && (
              <Fact name="Given by">
                <Who id={grant.given_by} />
              </Fact>
            )
          )}
          {grant.ended_by && (
            <Fact name="Ended by">
              <Who id={grant.ended_by} /> {grant.ended_at && <When at={grant.ended_at} />}
            </Fact>
          )}
          {grant.reason && (
            <Fact name={grant.requested_by ? 'The agent’s own words' : 'Why'}>
              “<Foreign text={grant.reason} />”
            </Fact>
          )}
          {grant.invocation_id && (
            <Fact name="Came with">
              <Link to="/" search={{ tab: 'decided', call: grant.invocation_id }} className="text-primary underline">
                {grant.invocation_id}
              </Link>
            </Fact>
          )}
          <Fact name="Created">
            <When at={grant.created_at} />
          </Fact>
        </Facts>
      </Section>
    </div>
  )
}
