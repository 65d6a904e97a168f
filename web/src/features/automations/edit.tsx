// The pages on which a definition is written: a new one, or another version of one that is saved.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { ApiError } from '@/api/client'
import type { Json } from '@/api/types'
import { Copy, Empty, Failed, Loading } from '@/components/ui'
import { automationQuery } from '@/lib/automations'
import { unkept, unkeptInWords } from '@/lib/digits'
import { useMay } from '@/lib/me'
import { Editor, VIEWS, type View } from './editor'
import { BLANK } from './model'
import { working } from './working'

const viewOf = (named: string | undefined): View => VIEWS.find(view => view === named) ?? 'form'

const newRoute = getRouteApi('/automations/new')

export function NewAutomation() {
  const { view } = newRoute.useSearch()
  const navigate = newRoute.useNavigate()
  const kept = working('new')
  return (
    <Editor
      of="new"
      saved={undefined}
      start={kept ?? { definition: BLANK }}
      view={viewOf(view)}
      onView={next => void navigate({ search: { view: next === 'form' ? undefined : next }, replace: true })}
    />
  )
}

const editRoute = getRouteApi('/automations/$automation/edit')

export function EditAutomation() {
  const { automation: id } = editRoute.useParams()
  const { view } = editRoute.useSearch()
  const navigate = editRoute.useNavigate()
  // What somebody saves meanwhile must not replace what is being written.
  const saved = useQuery({ ...automationQuery(id), refetchOnMount: false, staleTime: Number.POSITIVE_INFINITY })
  const permissions = useMay()
  if (saved.error) return <Failed error={saved.error as ApiError} retry={() => void saved.refetch()} />
  if (!saved.data) return <Loading />
  if (permissions.length > 0 && !permissions.includes('invoke'))
    return <Empty title="You may read it, and not change it">Whoever may make calls may save automations.</Empty>
  const definition = (saved.data.definition ?? {}) as Json
  const lost = unkept(definition)
  if (lost !== undefined)
    return (
      <Empty title="It is edited at the command line">
        <p>{unkeptInWords(lost)}</p>
        <p className="mt-3">
          <Copy text={`countersign automation edit ${id}`} />
        </p>
        <p>
          <Copy text={`countersign automation apply -f definition.json --automation ${id}`} />
        </p>
      </Empty>
    )
  return (
    <Editor
      key={id}
      of={id}
      saved={saved.data}
      start={working(id) ?? { definition, base: saved.data.digest }}
      view={viewOf(view)}
      onView={next => void navigate({ search: { view: next === 'form' ? undefined : next }, replace: true })}
    />
  )
}
