// One run: its steps on the left, the chosen one on the right, with everything that is known of it and the answer that it waits for.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Json, Run } from '@/api/types'
import { Pre } from '@/components/changes'
import { Fact, Facts } from '@/components/facts'
import { FormDialog } from '@/components/form-dialog'
import { Params } from '@/components/params'
import { RunBadge } from '@/components/run-status'
import { Button, Copy, Failed, Foreign, Loading, Section, When } from '@/components/ui'
import { MadeArtifacts } from '@/features/artifacts/made'
import { artifactsQuery } from '@/features/artifacts/queries'
import { useSentDenials } from '@/features/inbox/answer'
import { automationQuery, definitionQuery } from '@/lib/automations'
import { json, line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { milliseconds } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useReadAgain } from '@/lib/refresh'
import { DefinitionOfRun } from './definition'
import { inputsSchema, isSame } from './inputs'
import { firstToSee, inWords, isAbout, isFinal, type Line, lasted, lineOf, linesOf, startedBy, stepThatMade } from './model'
import { cancelRun, rerun, runQuery } from './queries'
import { StartDialog, useFired } from './start'
import { StepPanel, StepRail } from './steps'

const route = getRouteApi('/runs/$run')

export function OneRun() {
  const { run: id } = route.useParams()
  const { step } = route.useSearch()
  const navigate = route.useNavigate()
  const read = useQuery(runQuery(id))
  const run = read.data
  const definition = useQuery({ ...definitionQuery(run?.automation_id ?? '', run?.version ?? 0), enabled: !!run, retry: false })
  const denials = useSentDenials()
  useReadAgain(event => isAbout(event, id), [runQuery(id).queryKey, artifactsQuery({ run: id }).queryKey])
  if (read.error && !run) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  if (!run) return <Loading />
  const lines = linesOf(run, definition.data)
  const chosen = lineOf(lines, step) ?? firstToSee(lines)
  return (
    <div className="flex h-full min-h-0 flex-col max-lg:overflow-auto">
      <Head run={run} onChanged={() => void read.refetch()} />
      <div className="flex min-h-0 flex-1 max-lg:flex-col">
        <section aria-label="Steps" className="max-lg:contents lg:w-80 lg:shrink-0 lg:overflow-auto lg:border-r">
          <StepRail lines={lines} chosen={chosen} onPick={name => void navigate({ search: { step: name }, replace: true })} />
          <div className="px-4 pb-5 max-lg:order-last">
            <About run={run} lines={lines} definition={definition.data} />
          </div>
        </section>
        <section aria-label="The selected step" className="flex min-w-0 flex-1 flex-col max-lg:border-y lg:min-h-0 lg:overflow-auto">
          {chosen && <StepPanel key={`${chosen.phase} ${chosen.id}`} run={run} line={chosen} denials={denials} />}
        </section>
      </div>
    </div>
  )
}

function Head({ run, onChanged }: { run: Run; onChanged: () => void }) {
  const [open, setOpen] = useState<'cancel' | 'rerun' | 'payload'>()
  const fired = useFired()
  const mayRun = useMay().includes('invoke')
  const now = useNow()
  const ms = lasted(run, now)
  const current = useQuery({ ...automationQuery(run.automation_id), retry: false })
  const nameOf = useNames()
  return (
    <header className="border-b px-4 py-3 md:px-6">
      <Link
        to="/runs"
        search={{ automation: run.automation_id }}
        className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg"
      >
        <ArrowLeft aria-hidden className="size-4" /> Runs
      </Link>
      <div className="mt-1 flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <h1 className="text-lg font-semibold">
            Run of{' '}
            <Link to="/automations/$automation" params={{ automation: run.automation_id }} className="hover:underline">
              <Foreign text={run.automation_name ?? run.automation_id} />
            </Link>
          </h1>
          <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <RunBadge status={run.status} />
            <Copy text={run.id} />
            <span className="text-xs text-muted-fg">
              by {line(startedBy(run))} · <When at={run.created_at} />
              {ms !== undefined && ` · ${milliseconds(ms)}`}
            </span>
          </p>
          <p aria-live="polite" className="mt-1">
            {inWords(run)}
            {run.cancelled_by && ` ${line(nameOf(run.cancelled_by))} asked for its end.`}
          </p>
          {run.error && (
            <p className="foreign mt-1 text-danger">
              {run.error.step_id && `Step ${line(run.error.step_id)}: `}
              {line(run.error.message)} ({run.error.code})
            </p>
          )}
        </div>
        <div className="flex min-w-0 flex-wrap items-center gap-2">
          <Copy text={`countersign run ${isFinal(run) ? 'show' : 'watch'} ${run.id}`} />
          {mayRun && !isFinal(run) && (
            <Button look="danger" onClick={() => setOpen('cancel')}>
              Cancel…
            </Button>
          )}
          {mayRun && isFinal(run) && (
            <Button disabled={!current.data} title="With the version that is saved now" onClick={() => setOpen('rerun')}>
              Run again…
            </Button>
          )}
          {mayRun && isFinal(run) && run.trigger_payload != null && (
            <Button title="With what its trigger was given" onClick={() => setOpen('payload')}>
              With this payload…
            </Button>
          )}
        </div>
      </div>
      {open === 'cancel' && (
        <FormDialog
          title="Cancel this run?"
          verb="Cancel the run"
          look="danger"
          onClose={() => setOpen(undefined)}
          send={async () => {
            await cancelRun(run.id)
            setOpen(undefined)
            onChanged()
          }}
        >
          <p>What waits for a person is withdrawn. A step in progress still ends as it ends, and has its receipt.</p>
        </FormDialog>
      )}
      {open === 'payload' && (
        <FormDialog
          title="Run it again with this payload?"
          verb="Run it"
          onClose={() => setOpen(undefined)}
          send={async () => {
            const done = await rerun(run.id, { with_payload: true })
            setOpen(undefined)
            fired(done)
          }}
        >
          <p>
            Its inputs are made anew of what its trigger was given, by the mapping that is saved now. Steps that need a person wait for one,
            as always.
          </p>
        </FormDialog>
      )}
      {open === 'rerun' && current.data && (
        <StartDialog
          title="Run it again"
          verb="Run it"
          schema={inputsSchema((current.data.definition ?? {}) as Json)}
          inputs={(run.inputs ?? {}) as Json}
          about="Inputs that you leave as they are, are taken as they were given. If you change any, give what is redacted once more."
          start={inputs => rerun(run.id, isSame(inputs, run.inputs) ? {} : { inputs })}
          onClose={() => setOpen(undefined)}
        />
      )}
    </header>
  )
}

function About({ run, lines, definition }: { run: Run; lines: readonly Line[]; definition: Json | undefined }) {
  const inputs = (run.inputs ?? {}) as Json
  const nameOf = useNames()
  return (
    <>
      <Section title="Inputs">
        {Object.keys(inputs).length === 0 ? (
          <p className="text-muted-fg">{run.inputs === null ? 'Its space no longer keeps them.' : 'None.'}</p>
        ) : (
          <Params params={inputs} schema={(definition?.inputs as Json | undefined)?.schema as Json | undefined} />
        )}
      </Section>
      {run.trigger_payload != null && (
        <Section title="What its trigger was given">
          <Pre text={json(run.trigger_payload)} />
        </Section>
      )}
      {run.output != null && (
        <Section title="What it came to">
          <Pre text={json(run.output)} />
        </Section>
      )}
      <MadeArtifacts of={{ run: run.id }} stepOf={artifact => stepThatMade(lines, artifact)?.id} />
      <Section title="About">
        <Facts>
          <Fact name="Worked">{milliseconds(run.worked_ms)}</Fact>
          {run.cost_usd && (
            <Fact name="Cost">
              ${run.cost_usd}
              {run.unpriced && run.unpriced.length > 0 && ` · no price, so $0: ${line(run.unpriced.join(', '))}`}
            </Fact>
          )}
          <Fact name="Queue">{line(run.queue)}</Fact>
          {run.asked_by && <Fact name="Asked for by">{line(nameOf(run.asked_by))}</Fact>}
          {run.recoveries > 0 && <Fact name="Taken up again">{run.recoveries} times, after its worker had gone</Fact>}
          {run.rerun_of && (
            <Fact name="Once more">
              <Link to="/runs/$run" params={{ run: run.rerun_of }} className="text-primary underline">
                the run before
              </Link>
            </Fact>
          )}
          {run.root_run_id !== run.id && (
            <Fact name="First cause">
              <Link to="/runs/$run" params={{ run: run.root_run_id }} className="text-primary underline">
                the run that led to it
              </Link>
            </Fact>
          )}
          <Fact name="Session">
            <Link to="/policies/sessions/$session" params={{ session: run.session_id }} className="text-primary underline">
              its calls
            </Link>
          </Fact>
          <Fact name="Firing">
            <Link
              to="/automations/$automation"
              params={{ automation: run.automation_id }}
              search={{ tab: 'history' }}
              className="text-primary underline"
            >
              among what its triggers came to
            </Link>
          </Fact>
          <Fact name="Events">
            <Link to="/events" search={{ subject: run.id }} className="text-primary underline">
              its events
            </Link>
          </Fact>
        </Facts>
      </Section>
      <DefinitionOfRun run={run} definition={definition} />
      <Raw run={run} />
    </>
  )
}

/** The run as the API tells it. */
function Raw({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <div className="mt-5">
      <Button look="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? 'Hide the JSON' : 'Raw JSON'}
      </Button>
      {isOpen && <Pre text={json(run)} />}
    </div>
  )
}
