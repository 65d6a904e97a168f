// What was held back because its content looks dangerous: what was found, and a person's word about it.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import type { ApiError } from '@/api/client'
import { Fact, Facts } from '@/components/facts'
import { Rows } from '@/components/list-page'
import { Copy, cx, Empty, Exactly, fieldClass, Section, When } from '@/components/ui'
import { Who } from '@/features/policies/parts'
import { line } from '@/lib/clean'
import { useOpenFirst } from '@/lib/first'
import { useRefresh } from '@/lib/refresh'
import { Quarantined } from './held'
import { type Held, quarantineQuery, quarantinesQuery } from './queries'

export const STATES = ['held', 'released', 'discarded', 'expired'] as const satisfies readonly Held['state'][]
const WORDS: Record<Held['state'], { word: string; tone: string }> = {
  held: { word: 'held', tone: 'text-warn' },
  released: { word: 'released', tone: 'text-danger' },
  discarded: { word: 'discarded', tone: 'text-muted-fg' },
  expired: { word: 'expired', tone: 'text-muted-fg' },
}

const route = getRouteApi('/quarantine')

export function Quarantine() {
  const { state, call } = route.useSearch()
  const navigate = useNavigate({ from: '/quarantine' })
  const list = useInfiniteQuery(quarantinesQuery(state))
  useRefresh(['quarantine.', 'invocation.quarantined', 'invocation.succeeded'], ['quarantines', 'quarantine'])
  const items = list.data?.pages.flatMap(page => page.items) ?? []
  // With nothing to choose from, what it is about has the whole page.
  const isEmpty = list.isSuccess && items.length === 0 && !call
  useOpenFirst(!!call, items[0]?.invocation_id, id => void navigate({ search: old => ({ ...old, call: id }), replace: true }))
  const show = (id: string | undefined) => void navigate({ search: old => ({ ...old, call: id }) })
  return (
    <div className="flex h-full min-h-0">
      <section
        aria-label="Quarantine"
        className={cx('flex w-full flex-col', !isEmpty && 'border-r lg:w-80 lg:shrink-0 xl:w-[25rem]', call && 'max-lg:hidden')}
      >
        <header className="border-b p-3">
          <div className="flex items-baseline justify-between gap-2">
            <h1 className="text-lg font-semibold">Quarantine</h1>
            <Copy text="countersign quarantine list" />
          </div>
          <select
            aria-label="State"
            value={state ?? ''}
            onChange={event =>
              void navigate({ search: old => ({ ...old, state: STATES.find(each => each === event.target.value) }), replace: true })
            }
            className={cx(fieldClass, 'mt-2', isEmpty && 'max-w-sm')}
          >
            <option value="">any state</option>
            {STATES.map(each => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </header>
        <div className="min-h-0 flex-1 overflow-auto">
          <Rows
            query={list}
            isEmpty={items.length === 0}
            empty={
              <Empty title={state ? `Nothing is ${state}` : 'Nothing was ever held back'}>
                <p className="mb-3">A call whose content looks dangerous ends here, before it runs.</p>
                <a href="/docs/concepts/safety-checks" className="text-primary underline">
                  What is looked for
                </a>
              </Empty>
            }
          >
            <ul aria-label="Held back">
              {items.map(item => (
                <li key={item.invocation_id}>
                  <Row item={item} isChosen={item.invocation_id === call} onClick={() => show(item.invocation_id)} />
                </li>
              ))}
            </ul>
          </Rows>
        </div>
      </section>
      <section aria-label="The selected one" className={cx('min-w-0 flex-1 overflow-auto', !call && 'max-lg:hidden', isEmpty && 'hidden')}>
        {call ? <Detail key={call} id={call} onBack={() => show(undefined)} /> : items.length > 0 && <Empty title="Choose one" />}
      </section>
    </div>
  )
}

function Row({ item, isChosen, onClick }: { item: Held; isChosen: boolean; onClick: () => void }) {
  return (
    <button
      type="button"
      aria-current={isChosen ? 'true' : undefined}
      onClick={onClick}
      className={cx(
        'block w-full border-b border-l-2 px-3 py-2 text-left',
        isChosen ? 'border-l-primary bg-accent' : 'border-l-transparent hover:bg-muted',
      )}
    >
      <span className="flex items-baseline justify-between gap-2">
        <span className="truncate font-mono text-[13px] font-medium">{line(item.action)}</span>
        <span className={cx('shrink-0 text-xs', WORDS[item.state].tone)}>{WORDS[item.state].word}</span>
      </span>
      <span className="flex items-baseline justify-between gap-2 text-xs text-muted-fg">
        <span className="truncate">
          {item.holds === 'params' ? 'its params' : 'what came back'} · {item.caught.map(caught => caught.rule).join(', ')}
        </span>
        <When at={item.created_at} />
      </span>
    </button>
  )
}

function Detail({ id, onBack }: { id: string; onBack: () => void }) {
  const held = useQuery(quarantineQuery(id))
  const item = held.data
  const isUnknown = (held.error as ApiError | null)?.code === 'not_found'
  return (
    <div className="px-4 py-5 md:px-6">
      <h1 className="sr-only lg:hidden">Quarantine</h1>
      <button type="button" className="mb-2 inline-flex items-center gap-1 text-muted-fg lg:hidden" onClick={onBack}>
        <ArrowLeft aria-hidden className="size-4" /> Quarantine
      </button>
      <div className="flex flex-wrap items-center gap-3">
        <Copy text={id} />
      </div>
      {item && <h2 className="mt-1 mb-3 font-mono text-lg font-semibold">{line(item.action)}</h2>}
      {isUnknown ? (
        <Empty title="Nothing is held of this call" />
      ) : (
        <div className="space-y-2 rounded-md border bg-panel p-4">
          <Quarantined id={id} />
        </div>
      )}
      {item && (
        <Section title="The call">
          <Facts>
            <Fact name="What became of it">
              {item.holds === 'params' ? 'It did not run.' : 'It ran; what came back was withheld.'}{' '}
              <Link to="/" search={{ tab: 'decided', call: id }} className="text-primary underline">
                Show the call
              </Link>
            </Fact>
            <Fact name="Asked by">
              <Who id={item.principal} />
            </Fact>
            <Fact name="Session">
              <Copy text={item.session_id} />
            </Fact>
            <Fact name="Held since">
              <When at={item.created_at} />
              <Exactly at={item.created_at} />
            </Fact>
            {item.settled_at && (
              <Fact name="Settled">
                <When at={item.settled_at} />
              </Fact>
            )}
          </Facts>
        </Section>
      )}
      {item?.state === 'held' && (
        <Section title="What the two answers do">
          <p>
            <b>Release</b>{' '}
            {item.holds === 'params'
              ? 'makes a new call with the same params. It passes every other gate again, and may ask a person.'
              : 'lets what came back be read.'}{' '}
            <b>Discard</b> forgets the content. Whoever made the call cannot answer this.
          </p>
        </Section>
      )}
      <Section title="At the command line">
        <Copy text={`countersign quarantine show ${id}`} />
      </Section>
    </div>
  )
}
