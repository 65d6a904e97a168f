// The catalogue over all sources: what each action may do, what would happen to a call of it, and why. And a form to try it.

import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import type { Action, Source } from '@/api/types'
import { Drifted } from '@/components/drifted'
import { Fact, Facts } from '@/components/facts'
import { Asked } from '@/components/list-page'
import { DriftMark, ModeWord, TierBadge } from '@/components/status'
import { Button, Copy, cx, Empty, Foreign, fieldClass, Loading, Section } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { block, line } from '@/lib/clean'
import { MODE_SOURCES } from '@/lib/decision'
import { useOpenFirst } from '@/lib/first'
import { span } from '@/lib/format'
import { rank } from '@/lib/search'
import { statsQuery } from './queries'
import { Try } from './try'

const route = getRouteApi('/actions')

export function Actions() {
  const { action: chosen, q = '' } = route.useSearch()
  const navigate = useNavigate({ from: '/actions' })
  const actions = useQuery(actionsQuery)
  const sources = actions.data?.sources ?? []
  const selected = sources.flatMap(source => source.actions).find(action => action.id === chosen)
  const fits = (action: Action) => rank(`${action.id} ${action.title}`, q) > 0
  const isListed = (source: Source) => !q || source.actions.some(fits)
  const first = sources.flatMap(source => source.actions).find(fits)?.id
  useOpenFirst(!!chosen, first, id => void navigate({ search: old => ({ ...old, action: id }), replace: true }))
  return (
    <div className="flex h-full min-h-0">
      <section
        aria-label="Actions"
        className={cx('flex w-full flex-col border-r lg:w-80 lg:shrink-0 xl:w-[25rem]', selected && 'max-lg:hidden')}
      >
        <header className="border-b p-3">
          <div className="flex flex-wrap items-baseline justify-between gap-x-2">
            <h1 className="text-lg font-semibold">Actions</h1>
            <Copy text="countersign action list" />
          </div>
          <input
            type="search"
            aria-label="Filter"
            placeholder="Filter"
            value={q}
            onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
            className={`${fieldClass} mt-2`}
          />
        </header>
        <div className="min-h-0 flex-1 overflow-auto">
          <Asked query={actions} />
          {actions.isPending && <Loading />}
          {sources.filter(isListed).map(source => (
            <div key={source.id}>
              <h2 className="sticky top-0 border-b bg-muted px-3 py-1 text-xs font-semibold text-muted-fg">
                <Foreign text={source.title || source.id} /> {source.stale && '· from an earlier listing'}
              </h2>
              {source.error && <p className="foreign px-3 py-2 text-danger">{line(source.error)}</p>}
              {source.actions.filter(fits).map(action => (
                <button
                  key={action.id}
                  type="button"
                  aria-current={action.id === chosen ? 'true' : undefined}
                  onClick={() => void navigate({ search: old => ({ ...old, action: action.id }) })}
                  className={cx(
                    'block w-full border-b border-l-2 px-3 py-2 text-left',
                    action.id === chosen ? 'border-l-primary bg-accent' : 'border-l-transparent hover:bg-muted',
                  )}
                >
                  <span className="flex items-baseline justify-between gap-2">
                    <span className="truncate font-mono text-[13px] font-medium">{action.id}</span>
                    <ModeWord mode={action.mode} className="shrink-0 text-xs" />
                  </span>
                  <span className="flex items-center gap-2 text-xs text-muted-fg">
                    <TierBadge tier={action.tier} />
                    <Foreign text={action.title} className="truncate" />
                    {action.drift !== 'none' && <DriftMark />}
                  </span>
                </button>
              ))}
            </div>
          ))}
          {q && sources.length > 0 && !sources.some(isListed) && (
            <Empty title="No action is called so">
              <Button onClick={() => void navigate({ search: old => ({ ...old, q: undefined }), replace: true })}>Show all</Button>
            </Empty>
          )}
          {actions.data && sources.length === 0 && (
            <Empty title="No source has actions">
              <Copy text="countersign source add --help" />
            </Empty>
          )}
        </div>
      </section>
      <section aria-label="The selected action" className={cx('min-w-0 flex-1 overflow-auto', !selected && 'max-lg:hidden')}>
        {selected ? (
          <Detail key={selected.id} action={selected} onBack={() => void navigate({ search: old => ({ ...old, action: undefined }) })} />
        ) : (
          <Empty title={chosen && actions.isSuccess ? 'There is no such action' : 'Choose an action'}>
            What a call of it would do, what happens to it and why, and a form to try it.
          </Empty>
        )}
      </section>
    </div>
  )
}

const priceWords = (price: Action['price']): string => {
  if (!price) return 'none: its calls count $0'
  return price.per ? `$${price.usd} per ${line(price.per)}, at most ${price.at_most} a call` : `$${price.usd} per call`
}

function Detail({ action, onBack }: { action: Action; onBack: () => void }) {
  const stats = useQuery(statsQuery(action.id))
  return (
    <div className="px-4 py-5 md:px-6">
      <h1 className="sr-only lg:hidden">Actions</h1>
      <button type="button" className="mb-2 inline-flex items-center gap-1 text-muted-fg lg:hidden" onClick={onBack}>
        <ArrowLeft aria-hidden className="size-4" /> Actions
      </button>
      <div className="flex flex-wrap items-center gap-3">
        <TierBadge tier={action.tier} />
        <span className="text-xs">{action.class}</span>
        <Copy text={action.id} />
      </div>
      <h2 className="mt-1 text-lg font-semibold">
        <Foreign text={action.title} />
      </h2>
      <p className="text-xs text-muted-fg">In the words of its source:</p>
      <p className="foreign whitespace-pre-wrap">{block(action.description)}</p>

      <Section title="What happens to a call">
        <p>
          <ModeWord mode={action.mode} className="font-bold" /> · {MODE_SOURCES[action.mode_source]}
          {action.tightened?.map(why => ` → ${why}`)}
        </p>
        {action.drift !== 'none' && <Drifted action={action} />}
        <div className="flex flex-col items-start gap-1">
          <Copy text={`countersign action show ${action.id}`} />
          <Copy text={`countersign mode set ${action.id} require_approval`} />
        </div>
      </Section>
      <Section title="What it does">
        <Facts>
          <Fact name="Effects">{action.effects?.join(', ').replaceAll('_', ' ') || 'none'}</Fact>
          <Fact name="Can be reverted">
            {action.reversibility === 'reversible' && action.reversible_seconds
              ? `for ${span(action.reversible_seconds)}`
              : action.reversibility.replaceAll('_', ' ')}
          </Fact>
          <Fact name="Price">{priceWords(action.price)}</Fact>
          <Fact name="Dry run">{action.dry_run_supported ? 'yes' : 'this source cannot'}</Fact>
          <Fact name="Verified by">{action.checks?.join(', ') || 'nothing'}</Fact>
          <Fact name="Needs">{action.requires?.join(', ') || 'nothing'}</Fact>
          <Fact name="Runs in">{action.profile.replaceAll('_', ' ')}</Fact>
          {!!action.hosts?.length && <Fact name="May reach">{line(action.hosts.join(', '))}</Fact>}
        </Facts>
      </Section>
      {stats.data && (
        <Section title="Its last calls">
          <p className="tabular-nums">
            {Object.entries(stats.data.calls)
              .map(([status, count]) => `${count} ${status.replace('_', ' ')}`)
              .join(' · ') || 'None yet.'}
            {stats.data.latency_ms && ` · p50 ${stats.data.latency_ms.p50} ms, p95 ${stats.data.latency_ms.p95} ms`}
          </p>
        </Section>
      )}
      <Section title="Try it">
        <Try action={action} />
      </Section>
    </div>
  )
}
