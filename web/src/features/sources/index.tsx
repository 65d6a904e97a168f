// Where actions come from: what is built in, packages, and the MCP servers that admins added. Whether each works, and what drifted.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft, Plus } from 'lucide-react'
import type { ApiError } from '@/api/client'
import { DriftMark } from '@/components/status'
import { Button, Copy, Empty, Failed, Foreign, fieldClass, Loading } from '@/components/ui'
import { STATES } from '@/features/secrets/model'
import { connectionsQuery } from '@/features/secrets/queries'
import { packagesQuery } from '@/features/settings/queries'
import { actionsQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useRefresh } from '@/lib/refresh'
import { rank } from '@/lib/search'
import { SourceForm } from './form'
import { HealthWord } from './health'
import { draftOfPreset, emptyDraft, isShown, KINDS, type Row, rowsOf } from './model'
import { OWN, PRESETS } from './presets'
import { sourcesQuery } from './queries'

const route = getRouteApi('/sources')

export function Sources() {
  const { add } = route.useSearch()
  return add ? <Add preset={add} /> : <List />
}

function List() {
  const { q = '', show } = route.useSearch()
  const navigate = useNavigate({ from: '/sources' })
  const added = useQuery(sourcesQuery)
  const connections = useQuery(connectionsQuery)
  const catalogue = useQuery(actionsQuery)
  const packages = useQuery({ ...packagesQuery, retry: false })
  const mayAdd = useMay().includes('manage_policy')
  useRefresh(['source.', 'action.', 'connection.', 'switch.', 'breaker.'], ['sources', 'connections', 'actions'])
  const rows = rowsOf(added.data ?? [], connections.data ?? [], catalogue.data?.sources ?? [], packages.data)
  const fitting = rows.filter(row => isShown(row, show) && rank(`${row.id} ${row.title} ${row.place}`, q) > 0)
  const error = (added.error ?? catalogue.error) as ApiError | null
  const isPending = added.isPending || catalogue.isPending
  const toReview = rows.reduce((sum, row) => sum + row.drifted, 0)
  return (
    <div className="flex h-full flex-col">
      <header className="border-b px-4 py-3 md:px-6">
        <div className="flex flex-wrap items-center justify-between gap-2">
          <h1 className="text-lg font-semibold">Sources</h1>
          <div className="flex items-center gap-3">
            <Copy text="countersign source list" className="max-sm:hidden" />
            {mayAdd && (
              <Button look="primary" onClick={() => void navigate({ search: { add: OWN } })}>
                <Plus aria-hidden className="size-4" /> Add a source
              </Button>
            )}
          </div>
        </div>
        <div className="mt-2 grid gap-2 sm:grid-cols-[minmax(0,1fr)_14rem]">
          <input
            type="search"
            aria-label="Filter"
            placeholder="Filter"
            value={q}
            onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
            className={fieldClass}
          />
          <select
            aria-label="Which sources"
            value={show ?? ''}
            onChange={event =>
              void navigate({ search: old => ({ ...old, show: (event.target.value || undefined) as typeof show }), replace: true })
            }
            className={fieldClass}
          >
            <option value="">all</option>
            <option value="drifted">with actions to review ({toReview})</option>
            <option value="failing">that do not work</option>
          </select>
        </div>
      </header>
      <div className="min-h-0 flex-1 overflow-auto">
        {error && (
          <Failed
            error={error}
            retry={() => {
              void added.refetch()
              void catalogue.refetch()
            }}
          />
        )}
        {isPending && !error && <Loading />}
        {!isPending && added.data?.length === 0 && !q && !show && (
          <Empty title="No MCP server is connected yet">
            <p className="mb-3">Its tools become actions, under the same rules, approvals and receipts as all others.</p>
            {mayAdd ? (
              <Button look="primary" onClick={() => void navigate({ search: { add: OWN } })}>
                Add a source
              </Button>
            ) : (
              <Copy text="countersign source add --help" />
            )}
          </Empty>
        )}
        {!isPending && (
          <ul aria-label="Sources" className="divide-y border-b">
            {fitting.map(row => (
              <ListRow key={row.id} row={row} />
            ))}
          </ul>
        )}
        {!isPending && !error && fitting.length === 0 && rows.length > 0 && (
          <Empty title="No source fits">
            <Button onClick={() => void navigate({ search: {} })}>Show all</Button>
          </Empty>
        )}
      </div>
    </div>
  )
}

function ListRow({ row }: { row: Row }) {
  return (
    <li>
      <Link
        to="/sources/$source"
        params={{ source: row.id }}
        className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-4 gap-y-0.5 px-4 py-2.5 hover:bg-muted md:px-6 lg:grid-cols-[minmax(0,1fr)_11rem_12rem_9rem] lg:items-center"
      >
        <span className="min-w-0">
          <Foreign text={row.title} className="font-medium" />{' '}
          {row.title !== row.id && <span className="font-mono text-xs text-muted-fg">{row.id}</span>}
          <span className="block truncate text-xs text-muted-fg">
            {KINDS[row.kind]}
            {row.place && <span className="foreign font-mono"> · {line(row.place)}</span>}
          </span>
        </span>
        <span className="text-right text-xs tabular-nums lg:order-last">
          {counted(row.actions, 'action')}
          {row.drifted > 0 && (
            <span className="block">
              <DriftMark>{row.drifted} to review</DriftMark>
            </span>
          )}
        </span>
        <span className="col-span-full flex flex-wrap items-baseline gap-x-3 text-xs lg:contents">
          <span className="min-w-0">
            <HealthWord health={row.health} />
            {row.why && row.health !== 'answers' && (
              <span className="foreign block truncate text-muted-fg" title={line(row.why)}>
                {line(row.why)}
              </span>
            )}
          </span>
          <span className="text-xs text-muted-fg">
            {row.connection ? (
              <>
                connection {row.connection.name}
                {row.connection.state && <span className={STATES[row.connection.state].tone}> · {STATES[row.connection.state].word}</span>}
              </>
            ) : (
              row.kind === 'http' && 'no credential'
            )}
          </span>
        </span>
      </Link>
    </li>
  )
}

function Add({ preset: name }: { preset: string }) {
  const navigate = useNavigate({ from: '/sources' })
  const preset = PRESETS.find(each => each.id === name)
  return (
    <div className="h-full overflow-auto px-4 py-4 md:px-6">
      <Link to="/sources" className="mb-2 inline-flex items-center gap-1 text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Sources
      </Link>
      <h1 className="text-lg font-semibold">Add a source</h1>
      <p className="text-muted-fg">An MCP server: its tools become actions. Adding it is your review of what it offers now.</p>
      <fieldset className="mt-4 mb-8 max-w-2xl">
        <legend className="mb-2 text-xs font-semibold tracking-wide text-muted-fg uppercase">Begin with</legend>
        <div className="flex flex-wrap gap-2">
          {[{ id: OWN, title: 'Your own' }, ...PRESETS].map(each => (
            <label
              key={each.id}
              className="flex min-h-9 cursor-pointer items-center rounded-md border bg-panel px-3 text-sm hover:bg-muted has-checked:border-primary has-checked:bg-accent has-focus-visible:outline-2 has-focus-visible:outline-primary max-md:min-h-11"
            >
              <input
                type="radio"
                name="preset"
                className="sr-only"
                checked={(preset?.id ?? OWN) === each.id}
                onChange={() => void navigate({ search: { add: each.id }, replace: true })}
              />
              {each.title}
            </label>
          ))}
        </div>
        {preset && <p className="mt-2 text-xs text-muted-fg">{preset.note}</p>}
      </fieldset>
      <SourceForm
        key={preset?.id ?? OWN}
        preset={preset}
        start={preset ? draftOfPreset(preset) : emptyDraft}
        onDone={source => void navigate({ to: '/sources/$source', params: { source: source.id } })}
        onCancel={() => void navigate({ search: {} })}
      />
      <p className="mt-6 text-xs">
        At the command line: <Copy text="countersign source add --help" />
      </p>
    </div>
  )
}
