// One document in three views: as a form, as JSON, and as what differs from the saved version. Beside it stands what it would do.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { useCallback, useEffect, useRef, useState } from 'react'
import { ApiError } from '@/api/client'
import type { Automation, Json, Mistake, Schemas } from '@/api/types'
import { Diff } from '@/components/changes'
import { Tabs } from '@/components/page-head'
import { Unread } from '@/components/schema-form/around'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Failed, Foreign, Loading, Section } from '@/components/ui'
import { lineDiff } from '@/lib/diff'
import { counted } from '@/lib/format'
import { DefinitionForm } from './form'
import { JsonView } from './json-view'
import { Lists } from './lists'
import { isBegun } from './model'
import { Mistakes, PlannedSteps, Schedules, SourcesTouched, SpaceField } from './parts'
import { dryRunQuery, schemaQuery } from './queries'
import { Review } from './review'
import { keep, type Working } from './working'

export const VIEWS = ['form', 'json', 'diff'] as const
export type View = (typeof VIEWS)[number]

/** A pause in typing after which the server is asked. */
const PAUSE_MS = 500

type Props = {
  /** What it is kept under: the automation, or `new`. */
  of: string
  saved: Automation | undefined
  start: Working
  view: View
  onView: (view: View) => void
}

export function Editor({ of, saved: seen, start, view, onView }: Props) {
  const navigate = useNavigate()
  const { say } = useToasts()
  const schema = useQuery(schemaQuery)
  const [saved, setSaved] = useState(seen)
  const [definition, setDefinition] = useState(start.definition)
  const [space, setSpace] = useState(start.space ?? '')
  // A text that is no JSON yet: the form goes on from what was last one.
  const [broken, setBroken] = useState<string>()
  // Forms in which a text cannot be read yet: the definition still has what it was before.
  const [unread, setUnread] = useState<readonly string[]>([])
  const hear = useCallback(
    (form: string, is: boolean) =>
      setUnread(old => (old.includes(form) === is ? old : is ? [...old, form] : old.filter(other => other !== form))),
    [],
  )
  const [open, setOpen] = useState(false)
  // What somebody began before another version was saved is compared with that one first.
  const isBehind = seen !== undefined && start.base !== undefined && start.base !== seen.digest
  const [notice, setNotice] = useState(isBehind ? meanwhile(seen) : undefined)
  const settled = useSettled(definition)
  const inSpace = saved?.space_id ?? (space || undefined)
  const isAsked = isBegun(settled)
  const plan = useQuery({ ...dryRunQuery(settled, inSpace, saved?.id), enabled: isAsked })
  const error = isAsked && plan.error instanceof ApiError ? plan.error : undefined
  const mistakes = error?.problem.mistakes ?? []
  const isChanged = !saved || JSON.stringify(definition) !== JSON.stringify(saved.definition)

  const { draft } = start
  const now: Working = { definition, base: saved?.digest, space: space || undefined, draft }
  const change = (next: Json) => {
    setDefinition(next)
    setBroken(undefined)
    keep(of, { ...now, definition: next })
  }
  const leave = () => {
    keep(of, undefined)
    const undo = () => {
      keep(of, now)
      void (saved
        ? navigate({ to: '/automations/$automation/edit', params: { automation: saved.id } })
        : navigate({ to: '/automations/new' }))
    }
    say('What you wrote is thrown away.', { undo })
    if (saved) void navigate({ to: '/automations/$automation', params: { automation: saved.id } })
    else void navigate({ to: '/automations' })
  }
  if (schema.error) return <Failed error={schema.error as ApiError} retry={() => void schema.refetch()} />
  if (!schema.data) return <Loading />
  const isLate = settled !== definition || plan.isFetching
  const isGood = isAsked && !broken && unread.length === 0 && !error && plan.data !== undefined && settled === definition
  const planned = isAsked && !error ? (plan.data?.schedules ?? []).map(schedule => ({ schedule, isLate })) : []
  return (
    <div className="flex h-full min-h-0 flex-col max-lg:overflow-auto">
      <header className="border-b px-4 py-3 md:px-6">
        <Link
          to={saved ? '/automations/$automation' : '/automations'}
          params={{ automation: saved?.id ?? '' }}
          className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg"
        >
          <ArrowLeft aria-hidden className="size-4" /> {saved ? <Foreign text={saved.name} /> : 'Automations'}
        </Link>
        <div className="mt-1 flex flex-wrap items-center gap-x-4 gap-y-2">
          <h1 className="min-w-0 text-lg font-semibold">
            {saved ? 'Edit' : 'New'}: <Foreign text={String(definition.name || 'without a name')} />
          </h1>
          <span className="text-xs text-muted-fg">
            {saved ? `version ${saved.version} is saved` : 'nothing is saved yet'}
            {isChanged && saved && ' · changed'}
          </span>
          {unread.length > 0 && (
            <span role="status" className="text-xs font-medium text-danger">
              A field cannot be read yet, and counts as it was before.
            </span>
          )}
          <span className="ml-auto flex flex-wrap items-center gap-2">
            {saved && <Copy text={`countersign automation diff -f definition.json --automation ${saved.id}`} label="command" />}
            <Button look="quiet" onClick={leave}>
              Throw away
            </Button>
            <Button look="primary" disabled={!isGood || !isChanged} onClick={() => setOpen(true)}>
              Review & save…
            </Button>
          </span>
        </div>
        <Tabs
          label="View"
          at={view}
          tabs={[
            { name: 'form', label: 'Form' },
            { name: 'json', label: 'JSON', count: broken ? 1 : 0 },
            { name: 'diff', label: 'Diff' },
          ]}
          onPick={onView}
        />
      </header>
      {notice && (
        <p role="status" className="border-b bg-muted px-4 py-2 font-medium md:px-6">
          {notice}
        </p>
      )}
      <div className="flex min-h-0 flex-1 max-lg:flex-col">
        <div className="min-w-0 flex-1 px-4 py-4 md:px-6 lg:overflow-auto">
          {broken && view !== 'json' && (
            <p role="alert" className="mb-4 text-danger">
              The text under JSON is no definition; this is what it was before.
            </p>
          )}
          {view === 'form' && (
            <Unread value={hear}>
              <DefinitionForm
                schema={schema.data}
                space={inSpace}
                definition={definition}
                mistakes={mistakes}
                planned={planned}
                onChange={change}
              />
            </Unread>
          )}
          {view === 'json' && <JsonView definition={definition} text={broken} mistakes={mistakes} onChange={change} onBroken={setBroken} />}
          {view === 'diff' && <Difference before={saved?.definition} after={definition} version={saved?.version} />}
        </div>
        <aside aria-label="What it would do" className="border-t px-4 pb-6 lg:w-96 lg:shrink-0 lg:overflow-auto lg:border-t-0 lg:border-l">
          <Section title="Space">
            {saved ? (
              <p className="text-muted-fg">It stays where it is.</p>
            ) : (
              <SpaceField
                value={space}
                onChange={next => {
                  setSpace(next)
                  keep(of, { ...now, space: next || undefined })
                }}
              />
            )}
          </Section>
          {!isAsked && (
            <p className="mt-6 text-muted-fg">Give it a name and each step an action: then this says what it would do, and when.</p>
          )}
          {isAsked && <WouldDo plan={plan.data} error={error} mistakes={mistakes} isLate={isLate} />}
        </aside>
      </div>
      <Lists />
      {open && (
        <Review
          definition={definition}
          space={space || undefined}
          saved={saved}
          draft={draft}
          onClose={() => setOpen(false)}
          onSaved={() => keep(of, undefined)}
          onMeanwhile={latest => {
            setSaved(latest)
            setOpen(false)
            setNotice(meanwhile(latest))
            keep(of, { ...now, base: latest.digest })
            onView('diff')
          }}
        />
      )}
    </div>
  )
}

const meanwhile = (latest: Automation): string =>
  `Version ${latest.version} was saved meanwhile. The diff says how yours differs from it; saving yours replaces it.`

/** The value after a pause in its changes. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => {
    timer.current = setTimeout(() => setSettled(value), PAUSE_MS)
    return () => clearTimeout(timer.current)
  }, [value])
  return settled
}

function Difference({ before, after, version }: { before: unknown; after: Json; version: number | undefined }) {
  const text = (value: unknown) => (value == null ? '' : JSON.stringify(value, null, 2))
  return (
    <>
      <p className="mb-2 text-muted-fg">
        {version ? `Against version ${version}, which is saved.` : 'Nothing is saved yet: all of it is new.'}
      </p>
      <div className="overflow-hidden rounded-md border bg-panel">
        <Diff text={lineDiff(text(before), text(after))} />
      </div>
    </>
  )
}

type Plan = Schemas['PlanView']

function WouldDo({
  plan,
  error,
  mistakes,
  isLate,
}: {
  plan: Plan | undefined
  error: ApiError | undefined
  mistakes: readonly Mistake[]
  isLate: boolean
}) {
  if (error)
    return (
      <Section title="Not yet a definition">
        {mistakes.length > 0 ? <Mistakes title={counted(mistakes.length, 'mistake')} mistakes={mistakes} /> : <Failed error={error} />}
        <p className="mt-3 text-muted-fg">What it would do, and when it fires, is shown once nothing is wrong.</p>
      </Section>
    )
  if (!plan) return <Loading />
  return (
    <div className={isLate ? 'opacity-60' : undefined}>
      <Section title="What would happen">
        <PlannedSteps plan={plan} />
        <SourcesTouched steps={plan.steps} />
      </Section>
      {plan.schedules.length > 0 && (
        <Section title="When it fires next">
          <Schedules schedules={plan.schedules} />
        </Section>
      )}
      {plan.warnings.length > 0 && (
        <Section title="Warnings">
          <Mistakes title={counted(plan.warnings.length, 'warning')} mistakes={plan.warnings} tone="warn" />
        </Section>
      )}
      {plan.flags.length > 0 && (
        <Section title="Worth checking">
          <Mistakes title={counted(plan.flags.length, 'remark')} mistakes={plan.flags} tone="warn" />
        </Section>
      )}
    </div>
  )
}
