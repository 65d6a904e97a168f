// What the triggers of an automation came to, newest first. What did not run stands in the same line of time, with its reason.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Automation, Firing, Run } from '@/api/types'
import { Rows } from '@/components/list-page'
import { RunBadge } from '@/components/run-status'
import { Button, Copy, cx, Empty, fieldClass, When } from '@/components/ui'
import { useSteady } from '@/features/policies/use-steady'
import { lasted } from '@/features/runs/model'
import { lastRunsQuery } from '@/features/runs/queries'
import { line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { milliseconds } from '@/lib/format'
import { firingInWords } from './firings'
import { firingsQuery } from './queries'

const OUTCOMES = ['started', 'skipped', 'dropped', 'deduplicated', 'refused'] as const

type Props = { automation: Automation; outcome: string | undefined; onOutcome: (outcome: string) => void }

export function History({ automation, outcome, onOutcome }: Props) {
  const firings = useInfiniteQuery(firingsQuery(automation.id, outcome))
  const runs = useQuery(lastRunsQuery(automation.id))
  const listed = firings.data?.pages.flatMap(page => page.items)
  const { items, fresh, show } = useSteady(listed, outcome ?? '')
  const runOf = new Map(runs.data?.map(run => [run.id, run]))
  return (
    <>
      <div className="flex flex-wrap items-center gap-3 py-4">
        <select
          aria-label="What it came to"
          value={outcome ?? ''}
          onChange={event => onOutcome(event.target.value)}
          className={cx(fieldClass, 'sm:w-56')}
        >
          <option value="">everything</option>
          {OUTCOMES.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <Link to="/runs" search={{ automation: automation.id }} className="text-primary underline">
          Its runs by status
        </Link>
        <Copy text={`countersign firing list ${automation.id}`} className="ml-auto" />
      </div>
      {fresh > 0 && (
        <p className="pb-3 text-center">
          <Button onClick={show}>Show what is new ({fresh})</Button>
        </p>
      )}
      <Rows
        query={firings}
        isEmpty={items.length === 0}
        empty={
          <Empty title={outcome ? 'Nothing came to that' : 'It has not fired yet'}>What did not run, and why, is listed here too.</Empty>
        }
      >
        <ol aria-label="Runs and firings" className="ml-1 border-l pl-4">
          {items.map(firing => (
            <li key={firing.id} className="relative pb-4">
              <span
                aria-hidden
                className={cx(
                  'absolute top-1.5 -left-[1.28rem] size-2 rounded-full',
                  firing.outcome === 'started' ? 'bg-primary' : 'bg-muted-fg',
                )}
              />
              <One firing={firing} run={firing.run_id ? runOf.get(firing.run_id) : undefined} />
            </li>
          ))}
        </ol>
      </Rows>
    </>
  )
}

function One({ firing, run }: { firing: Firing; run: Run | undefined }) {
  const now = useNow()
  const ms = run && lasted(run, now)
  const isStarted = firing.outcome === 'started'
  return (
    <div className={cx(!isStarted && 'text-muted-fg')}>
      <p className="flex flex-wrap items-baseline gap-x-3">
        {isStarted && run ? <RunBadge status={run.status} /> : null}
        {firing.run_id ? (
          <Link to="/runs/$run" params={{ run: firing.run_id }} className="text-primary underline">
            {firingInWords(firing)}
          </Link>
        ) : (
          <span>{firingInWords(firing)}</span>
        )}
        <span className="text-xs text-muted-fg">{firing.trigger_id ? `by ${line(firing.trigger_id)}` : 'by name'}</span>
        {ms !== undefined && <span className="text-xs text-muted-fg tabular-nums">{milliseconds(ms)}</span>}
        <span className="ml-auto text-xs text-muted-fg">
          <When at={firing.at} />
        </span>
      </p>
      {firing.wall && (
        <p className="text-xs text-muted-fg">
          due at {line(firing.wall)} {line(firing.timezone ?? '')}
        </p>
      )}
      {firing.detail && <p className="foreign text-sm">{line(firing.detail)}</p>}
    </div>
  )
}
