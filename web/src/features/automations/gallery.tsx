// Complete automations to begin with: choose one, fill in its fields, and go on in the editor. Nothing is saved here.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { Field } from '@/components/field'
import { PageHead } from '@/components/page-head'
import { Button, buttonClass, fieldClass } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { TimeZones } from './lists'
import { actionsOf } from './model'
import { asGiven, built, missing, STARTERS, type Starter, sourcesMissing } from './starters'
import { keep } from './working'

const route = getRouteApi('/automations/gallery')

export function Gallery() {
  const { starter: id } = route.useSearch()
  const chosen = STARTERS.find(starter => starter.id === id)
  return (
    <div className="flex h-full flex-col">
      <PageHead title="New automation" command="countersign automation apply -f morning-note.json">
        <Link to="/automations" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
          <ArrowLeft aria-hidden className="size-4" /> Automations
        </Link>
      </PageHead>
      <div className="min-h-0 flex-1 overflow-auto px-4 py-5 md:px-6">{chosen ? <Fill key={chosen.id} starter={chosen} /> : <All />}</div>
    </div>
  )
}

function useKnown(): readonly string[] | undefined {
  const actions = useQuery(actionsQuery)
  return actions.data?.sources.flatMap(source => source.actions.map(action => action.id))
}

function All() {
  const known = useKnown()
  const navigate = useNavigate()
  const blank = () => {
    keep('new', undefined)
    void navigate({ to: '/automations/new' })
  }
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        <p className="text-muted-fg">Each is complete: fill in its fields, look at what it would do, and save it.</p>
        <Button className="ml-auto" onClick={blank}>
          Begin with a blank one
        </Button>
      </div>
      <ul aria-label="To begin with" className="mt-4 grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
        {STARTERS.map(starter => (
          <li key={starter.id}>
            <Link
              to="/automations/gallery"
              search={{ starter: starter.id }}
              className="flex h-full flex-col rounded-md border bg-panel p-4 hover:bg-muted"
            >
              <span className="font-medium">{asGiven(starter).name}</span>
              <span className="mt-1 text-muted-fg">{starter.about}</span>
              <span className="mt-2 font-mono text-xs text-muted-fg">{actionsOf(starter.definition).join(' · ')}</span>
              <Needs starter={starter} known={known} />
            </Link>
          </li>
        ))}
      </ul>
    </>
  )
}

/** What has to be there before it can be saved. */
function Needs({ starter, known }: { starter: Starter; known: readonly string[] | undefined }) {
  const absent = known ? sourcesMissing(actionsOf(starter.definition), known) : []
  if (absent.length === 0) return null
  return <span className="mt-2 text-xs font-medium text-warn">Needs the source {absent.join(', ')}, which is not here.</span>
}

function Fill({ starter }: { starter: Starter }) {
  const known = useKnown()
  const navigate = useNavigate()
  const [filled, setFilled] = useState(() => asGiven(starter))
  const empty = missing(starter, filled)
  const goOn = (event: FormEvent) => {
    event.preventDefault()
    if (empty.length > 0) return
    keep('new', { definition: built(starter, filled) })
    void navigate({ to: '/automations/new' })
  }
  return (
    <form onSubmit={goOn} className="mx-auto max-w-xl space-y-4">
      <h2 className="text-base font-semibold">{asGiven(starter).name}</h2>
      <p className="text-muted-fg">{starter.about}</p>
      <Needs starter={starter} known={known} />
      {starter.fields.map(field => (
        <Field key={field.name} label={field.label} help={field.help}>
          {props => (
            <input
              {...props}
              required
              value={filled[field.name] ?? ''}
              list={field.kind === 'timezone' ? 'time-zones' : undefined}
              onChange={event => setFilled(old => ({ ...old, [field.name]: event.target.value }))}
              className={fieldClass}
            />
          )}
        </Field>
      ))}
      <TimeZones />
      <div className="flex flex-wrap gap-2">
        <Button look="primary" type="submit" disabled={empty.length > 0}>
          Go on
        </Button>
        <Link to="/automations/gallery" className={buttonClass('quiet')}>
          Another one
        </Link>
      </div>
    </form>
  )
}
