// One automation: what it does and what starts it, what its triggers came to, and its versions.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Automation, Json } from '@/api/types'
import { Fact, Facts } from '@/components/facts'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { Tabs } from '@/components/page-head'
import { AutomationBadge, RunBadge, Ticks } from '@/components/run-status'
import { useSpaceNames } from '@/components/spaces-field'
import { Button, buttonClass, Copy, Failed, Foreign, Loading, Section, When } from '@/components/ui'
import { inputsSchema } from '@/features/runs/inputs'
import { lastRunsQuery } from '@/features/runs/queries'
import { StartDialog } from '@/features/runs/start'
import { automationQuery } from '@/lib/automations'
import { block, line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useRefresh } from '@/lib/refresh'
import { useSending } from '@/lib/sending'
import { History } from './history'
import { healthOf } from './model'
import { Mistakes, PlannedSteps, Schedules } from './parts'
import { changed, planQuery, runNow, setStatus } from './queries'
import { Triggers } from './triggers'
import { Versions } from './versions'

const route = getRouteApi('/automations/$automation')
const TABS = ['overview', 'history', 'versions'] as const
const NAMES = { overview: 'Overview', history: 'Runs and firings', versions: 'Versions' }

export function OneAutomation() {
  const { automation: id } = route.useParams()
  const { tab: named, version, outcome } = route.useSearch()
  const navigate = route.useNavigate()
  const tab = TABS.find(each => each === named) ?? 'overview'
  const read = useQuery(automationQuery(id))
  useRefresh(['automation.'], ['automations', 'runs'])
  if (read.error && !read.data) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  const automation = read.data
  if (!automation) return <Loading />
  return (
    <div className="flex h-full flex-col">
      <Head automation={automation}>
        <Tabs
          label="Parts"
          at={tab}
          tabs={TABS.map(name => ({ name, label: NAMES[name] }))}
          onPick={name => void navigate({ search: { tab: name === 'overview' ? undefined : name } })}
        />
      </Head>
      <div className="min-h-0 flex-1 overflow-auto px-4 pb-6 md:px-6">
        {tab === 'overview' && <Overview automation={automation} />}
        {tab === 'history' && (
          <History
            automation={automation}
            outcome={outcome}
            onOutcome={next => void navigate({ search: old => ({ ...old, outcome: next || undefined }), replace: true })}
          />
        )}
        {tab === 'versions' && (
          <Versions
            automation={automation}
            chosen={Number(version) || undefined}
            onChoose={next =>
              void navigate({ search: old => ({ ...old, version: next === undefined ? undefined : String(next) }), replace: true })
            }
          />
        )}
      </div>
    </div>
  )
}

function Head({ automation, children }: { automation: Automation; children: ReactNode }) {
  const client = useQueryClient()
  const mayRun = useMay().includes('invoke')
  const { error, busy, run } = useSending<'pause' | 'resume'>()
  const [open, setOpen] = useState<'run' | 'archive'>()
  const set = (verb: 'pause' | 'resume') =>
    void run(verb, async () => {
      await setStatus(automation.id, verb)
      changed(client)
    })
  const isArchived = automation.status === 'archived'
  return (
    <header className="border-b px-4 py-3 md:px-6">
      <Link to="/automations" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Automations
      </Link>
      <div className="mt-1 flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <h1 className="text-lg font-semibold">
            <Foreign text={automation.name} />
          </h1>
          <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <AutomationBadge status={automation.status} />
            <Copy text={automation.id} />
            <Copy text={`countersign automation show ${automation.id}`} label="command" />
          </p>
        </div>
        {mayRun && !isArchived && (
          <div className="flex flex-wrap gap-2">
            <Button look="quiet" onClick={() => setOpen('archive')}>
              Archive…
            </Button>
            {automation.status === 'active' ? (
              <Button busy={busy === 'pause'} onClick={() => set('pause')}>
                Pause
              </Button>
            ) : (
              <Button busy={busy === 'resume'} onClick={() => set('resume')}>
                Resume
              </Button>
            )}
            <Link to="/automations/$automation/edit" params={{ automation: automation.id }} className={buttonClass('plain')}>
              Edit
            </Link>
            <Button look="primary" onClick={() => setOpen('run')}>
              Run now…
            </Button>
          </div>
        )}
      </div>
      {error && <Failed error={error} />}
      {children}
      {open === 'run' && (
        <StartDialog
          title={`Run ${automation.name} now`}
          verb="Run it"
          schema={inputsSchema((automation.definition ?? {}) as Json)}
          inputs={{}}
          start={inputs => runNow(automation.id, inputs)}
          onClose={() => setOpen(undefined)}
        />
      )}
      {open === 'archive' && (
        <FormDialog
          title="Archive this automation?"
          verb="Archive it for good"
          look="danger"
          onClose={() => setOpen(undefined)}
          send={async () => {
            await setStatus(automation.id, 'archive')
            setOpen(undefined)
            changed(client)
          }}
        >
          <p>Nothing runs it any more, and nothing brings it back. Its history stays, and its name is free.</p>
        </FormDialog>
      )}
    </header>
  )
}

function Overview({ automation }: { automation: Automation }) {
  const definition = (automation.definition ?? {}) as Json
  const plan = useQuery({ ...planQuery(automation.id), enabled: automation.status !== 'archived' })
  const runs = useQuery(lastRunsQuery(automation.id))
  const space = useSpaceNames([automation.space_id])
  const nameOf = useNames()
  const health = healthOf(automation.id, runs.data ?? [])
  const goal = typeof definition.goal === 'string' ? definition.goal : ''
  return (
    <div className="max-w-3xl">
      {goal && <p className="foreign mt-4 whitespace-pre-wrap">{block(goal)}</p>}
      <Section title="Now">
        <Facts>
          <Fact name="Next firing">{automation.next_due_at ? <When at={automation.next_due_at} /> : 'none that a clock knows of'}</Fact>
          <Fact name="Last run">
            {automation.last_run ? (
              <Link to="/runs/$run" params={{ run: automation.last_run.id }} className="hover:underline">
                <RunBadge status={automation.last_run.status} /> <When at={automation.last_run.created_at} />
              </Link>
            ) : (
              'it never ran'
            )}
          </Fact>
          {health.length > 0 && (
            <Fact name="Last runs">
              <Ticks statuses={health} />
            </Fact>
          )}
          <Fact name="Space">
            <Link to="/policies/spaces/$space" params={{ space: automation.space_id }} className="text-primary underline">
              {line(space)}
            </Link>
          </Fact>
          <Fact name="Acts for">{line(nameOf(automation.created_by))}, who saved it last</Fact>
          <Fact name="Version">
            {automation.version}, <When at={automation.changed_at} />
          </Fact>
          <Fact name="Modes">
            <Link to="/policies" search={{ automation: automation.id }} className="text-primary underline">
              what is set for its calls
            </Link>
          </Fact>
        </Facts>
      </Section>
      <Section title="What it does" aside={<Copy text={`countersign automation export ${automation.id}`} />}>
        <Asked query={plan} />
        {plan.data && <PlannedSteps plan={plan.data} />}
        {plan.data && (
          <div className="mt-3">
            <Mistakes title="Warnings" mistakes={plan.data.warnings} tone="warn" />
          </div>
        )}
      </Section>
      {!!plan.data?.schedules.length && (
        <Section title="When it fires next">
          <Schedules schedules={plan.data.schedules} />
        </Section>
      )}
      <Triggers automation={automation} />
    </div>
  )
}
