// One source: whether it works, what it offers, what changed since somebody looked, and what is set about it.

import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Source as Listed, Review, Tier } from '@/api/types'
import { Fact, Facts } from '@/components/facts'
import { TellBeside, type Told, toldOf } from '@/components/field'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { useSpaceNames } from '@/components/spaces-field'
import { DriftMark, ModeWord, TierBadge } from '@/components/status'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Empty, Exactly, Failed, Foreign, fieldClass, Loading, Section, When } from '@/components/ui'
import { STATES } from '@/features/secrets/model'
import { connectionsQuery } from '@/features/secrets/queries'
import { packagesQuery } from '@/features/settings/queries'
import { actionsQuery, reviewQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { counted, milliseconds } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useRefresh } from '@/lib/refresh'
import { useSending } from '@/lib/sending'
import { SourceForm } from './form'
import { HealthWord } from './health'
import { BECAUSE, draftOf, KINDS, placeOf, type Row, rowOf, rowOfCatalogue, testedSource } from './model'
import {
  type AddedSource,
  driftQuery,
  editSource,
  pauseSource,
  refreshSource,
  removeSource,
  resumeSource,
  sourceQuery,
  sourcesQuery,
  testSource,
} from './queries'
import { Reviews } from './review'

const route = getRouteApi('/sources/$source')

const TIERS: Tier[] = ['R0', 'R1', 'R2', 'R3', 'R4']

export function SourcePage() {
  const { source: id } = route.useParams()
  const { edit } = route.useSearch()
  const navigate = useNavigate({ from: '/sources/$source' })
  const all = useQuery(sourcesQuery)
  const catalogue = useQuery(actionsQuery)
  const connections = useQuery(connectionsQuery)
  useRefresh(['source.', 'action.', 'connection.', 'switch.', 'breaker.', 'mode.'], ['sources', 'drift', 'connections', 'actions'])
  const present = all.data?.find(source => source.id === id)
  // What nobody added is known by the catalogue alone; what neither knows was removed, or never was.
  const listed = catalogue.data?.sources.find(source => source.id === id)
  const removed = useQuery({ ...sourceQuery(id), enabled: all.isSuccess && catalogue.isSuccess && !present && !listed })
  const added = present ?? (listed ? undefined : removed.data)
  const error = (all.error ?? catalogue.error ?? removed.error) as ApiError | null
  const close = () => void navigate({ search: {} })
  return (
    <div className="h-full overflow-auto px-4 py-4 md:px-6">
      <Link to="/sources" className="mb-2 inline-flex items-center gap-1 text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Sources
      </Link>
      {added && edit && !added.removed_at ? (
        <>
          <h1 className="mb-6 text-lg font-semibold">Edit {added.id}</h1>
          <SourceForm start={draftOf(added)} before={added} onDone={close} onCancel={close} />
        </>
      ) : added ? (
        <Added source={added} row={rowOf(added, connections.data ?? [])} onEdit={() => void navigate({ search: { edit: true } })} />
      ) : listed && all.isSuccess ? (
        <Unadded source={listed} />
      ) : error?.code === 'unknown_source' ? (
        <Empty title="There is no such source">
          <Copy text="countersign source list" />
        </Empty>
      ) : error ? (
        <Failed error={error} retry={() => void all.refetch()} />
      ) : (
        <Loading />
      )}
    </div>
  )
}

function Head({ row, children }: { row: Row; children?: ReactNode }) {
  return (
    <header>
      <h1 className="sr-only">Source</h1>
      <div className="flex flex-wrap items-center gap-3 text-xs text-muted-fg">
        {KINDS[row.kind]} <Copy text={row.id} />
      </div>
      <h2 className="mt-1 text-lg font-semibold">
        <Foreign text={row.title} />
      </h2>
      <p>
        <HealthWord health={row.health} className="font-semibold" /> · {counted(row.actions, 'action')}
        {row.drifted > 0 && (
          <>
            {' · '}
            <DriftMark>{row.drifted} to review</DriftMark>
          </>
        )}
        {row.why && <span className="foreign block text-muted-fg">{line(row.why)}</span>}
      </p>
      {children}
    </header>
  )
}

function Added({ source, row, onEdit }: { source: AddedSource; row: Row; onEdit: () => void }) {
  const mayManage = useMay().includes('manage_policy')
  const drift = useQuery({ ...driftQuery(source.id), enabled: !source.removed_at })
  return (
    <div className="max-w-5xl pb-8">
      <Head row={row}>{mayManage && !source.removed_at && <Verbs source={source} onEdit={onEdit} />}</Head>
      <Asked query={drift} />
      {!!drift.data?.length && (
        <Section title="To review">
          <Reviews reviews={drift.data} />
        </Section>
      )}
      <Actions source={source} mayManage={mayManage && !source.removed_at} />
      {source.harvest.left_out.length > 0 && (
        <Section title="Tools that are no actions">
          <ul>
            {source.harvest.left_out.map(left => (
              <li key={`${left.tool}${left.why}`} className="foreign">
                {left.tool && <b className="font-mono text-xs">{line(left.tool)}</b>} {line(left.why)}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {source.program && <Program program={source.program} />}
      <Settings source={source} row={row} />
      <Section title="At the command line">
        <div className="flex flex-col items-start gap-1">
          <Copy text={`countersign source show ${source.id}`} />
          <Copy text={`countersign source review ${source.id}`} />
          <Copy text={`countersign action guide ${source.id}`} />
        </div>
      </Section>
    </div>
  )
}

function Verbs({ source, onEdit }: { source: AddedSource; onEdit: () => void }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const [told, setTold] = useState<Told>()
  const [open, setOpen] = useState<'pause' | 'remove'>()
  const { error, busy, run } = useSending<'test' | 'refresh' | 'resume'>()
  const act = (word: NonNullable<typeof busy>, send: () => Promise<unknown>) => {
    setTold(undefined)
    return run(word, async () => {
      await send()
      await client.invalidateQueries()
    })
  }
  return (
    <div className="mt-3 space-y-2">
      <div className="flex flex-wrap gap-2">
        <Button
          busy={busy === 'test'}
          disabled={!!busy}
          onClick={() => void act('test', async () => setTold(testedSource(await testSource(source.id))))}
        >
          Test
        </Button>
        <Button
          busy={busy === 'refresh'}
          disabled={!!busy || source.paused}
          title={source.paused ? 'A source that is paused is not asked' : 'Ask it for its actions now'}
          onClick={() =>
            void act('refresh', async () => {
              const { harvest } = await refreshSource(source.id)
              say(harvest.error ? line(harvest.error) : `It lists ${counted(harvest.actions.length, 'action')}.`)
            })
          }
        >
          List again
        </Button>
        <Button onClick={onEdit}>Edit</Button>
        {source.paused ? (
          <Button busy={busy === 'resume'} disabled={!!busy} onClick={() => void act('resume', () => resumeSource(source.id))}>
            Resume
          </Button>
        ) : (
          <Button onClick={() => setOpen('pause')}>Pause</Button>
        )}
        <Button look="danger" onClick={() => setOpen('remove')}>
          Remove
        </Button>
      </div>
      {told && <TellBeside told={told} />}
      {error && <TellBeside told={toldOf(error)} />}
      {open === 'pause' && <Pause source={source} onClose={() => setOpen(undefined)} />}
      {open === 'remove' && <Remove source={source} onClose={() => setOpen(undefined)} />}
    </div>
  )
}

function Pause({ source, onClose }: { source: AddedSource; onClose: () => void }) {
  const client = useQueryClient()
  const [reason, setReason] = useState('')
  const send = async () => {
    await pauseSource(source.id, reason.trim())
    await client.invalidateQueries()
    onClose()
  }
  return (
    <FormDialog title={`Pause ${source.id}`} verb="Pause" look="danger" disabled={!reason.trim()} onClose={onClose} send={send}>
      <p>Every call of it is stopped until you resume it. Pending calls are kept.</p>
      <label className="block">
        Why? Whoever calls it reads this.
        <input value={reason} onChange={event => setReason(event.target.value)} className={`${fieldClass} mt-1`} />
      </label>
    </FormDialog>
  )
}

function Remove({ source, onClose }: { source: AddedSource; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const { say } = useToasts()
  const send = async () => {
    await removeSource(source.id)
    say(`${source.id} is removed.`)
    await navigate({ to: '/sources' })
    await client.invalidateQueries()
  }
  return (
    <FormDialog title={`Remove ${source.id}`} verb="Remove" look="danger" onClose={onClose} send={send}>
      <p>
        Its {counted(source.harvest.actions.length, 'action')} are gone then, its grants end, and its pending calls do not run. Receipts and
        past definitions stay readable.
      </p>
      <Copy text={`countersign source remove ${source.id}`} />
    </FormDialog>
  )
}

/** The actions with their tiers. Changes of several are collected, and sent with one click. */
function Actions({ source, mayManage }: { source: AddedSource; mayManage: boolean }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const { error, busy, run } = useSending<string>()
  const [chosen, setChosen] = useState<Record<string, Tier | null>>({})
  const [isMeant, setMeant] = useState(false)
  const changes = Object.entries(chosen).filter(([tool, tier]) => (source.tiers[tool] ?? null) !== tier)
  const hasR2 = changes.some(([, tier]) => tier === 'R2')
  const save = () =>
    run('tiers', async () => {
      await editSource(source.id, {
        tiers: Object.fromEntries(changes),
        ...(hasR2 && isMeant ? { accept_irreversible: true } : {}),
        version: source.version,
      })
      say(`${counted(changes.length, 'tier')} changed.`)
      setChosen({})
      setMeant(false)
      await client.invalidateQueries()
    })
  if (source.harvest.actions.length === 0) return null
  return (
    <Section title="Actions">
      {error && <Failed error={error} />}
      <ul aria-label="Actions" className="divide-y rounded-md border bg-panel">
        {source.harvest.actions.map(action => {
          const tool = action.id.slice(source.id.length + 1)
          const set = source.tiers[tool] ?? null
          return (
            <li key={action.id} className="grid items-center gap-x-4 gap-y-1 px-3 py-2 lg:grid-cols-[minmax(0,1fr)_7rem_auto]">
              <span className="min-w-0">
                <Link to="/actions" search={{ action: action.id }} className="font-mono text-[13px] font-medium hover:underline">
                  {line(action.id)}
                </Link>
                {action.drift !== 'none' && (
                  <span className="ml-2">
                    <DriftMark>to review</DriftMark>
                  </span>
                )}
                <span className="block text-xs text-muted-fg">
                  <Foreign text={action.title} />
                </span>
              </span>
              <ModeWord mode={action.mode} className="text-xs" />
              <span className="flex items-center justify-between gap-3 text-xs text-muted-fg">
                <span className="flex flex-col lg:w-44 lg:shrink-0">
                  <TierBadge tier={action.tier} /> {BECAUSE[action.because] ?? action.because}
                </span>
                {mayManage && (
                  <select
                    aria-label={`Tier of ${action.id}`}
                    value={(tool in chosen ? chosen[tool] : set) ?? ''}
                    disabled={!!busy}
                    onChange={event => setChosen({ ...chosen, [tool]: (event.target.value || null) as Tier | null })}
                    className={cx(fieldClass, 'max-w-36')}
                  >
                    <option value="">by the rules</option>
                    {TIERS.map(tier => (
                      <option key={tier}>{tier}</option>
                    ))}
                  </select>
                )}
              </span>
            </li>
          )
        })}
      </ul>
      {changes.length > 0 && (
        <div className="mt-2 flex flex-wrap items-center gap-3">
          {hasR2 && (
            <label className="flex items-center gap-2 text-xs">
              <input type="checkbox" checked={isMeant} onChange={event => setMeant(event.target.checked)} />
              R2 is for what can be rolled back, and nothing that this server does can. Set it all the same.
            </label>
          )}
          <Button look="primary" busy={!!busy} disabled={hasR2 && !isMeant} onClick={() => void save()}>
            {`Save ${counted(changes.length, 'tier')}`}
          </Button>
          <Button look="quiet" disabled={!!busy} onClick={() => setChosen({})}>
            Undo
          </Button>
        </div>
      )}
      <Copy text={`countersign source tiers ${source.id}`} className="mt-2" />
    </Section>
  )
}

/** How its program ended and what to do, or that it runs, and what it said last beside its messages. */
function Program({ program: { ended, hint, stderr } }: { program: NonNullable<AddedSource['program']> }) {
  return (
    <Section title="Its program">
      <p>
        {ended ? <span className="text-warn">! It {line(ended)}.</span> : 'It runs.'}
        {hint && <span className="foreign block">{line(hint)}</span>}
      </p>
      {stderr.length > 0 && (
        <pre className="foreign mt-2 rounded-md border bg-muted p-3 font-mono text-xs whitespace-pre-wrap">
          {stderr.map(line).join('\n')}
        </pre>
      )}
    </Section>
  )
}

function Settings({ source, row }: { source: AddedSource; row: Row }) {
  const spaces = useSpaceNames(source.spaces)
  const nameOf = useNames()
  return (
    <Section title="Settings">
      <Facts>
        <Fact name={{ http: 'Address', program: 'Command', package: 'Package' }[draftOf(source).kind]}>
          <span className="font-mono text-[13px]">{line(placeOf(source))}</span>
        </Fact>
        {source.env.length > 0 && (
          <Fact name="Variables">
            {source.env.map(variable => (
              <span key={variable.name} className="block">
                <span className="font-mono text-[13px]">{line(variable.name)}</span>{' '}
                {variable.secret ? (
                  <>
                    from the secret{' '}
                    <Link to="/secrets" search={{ secret: variable.secret }} className="text-primary underline">
                      {variable.secret}
                    </Link>
                  </>
                ) : (
                  line(variable.value ?? '')
                )}
              </span>
            ))}
          </Fact>
        )}
        {row.kind === 'http' && (
          <Fact name="Connection">
            {row.connection ? (
              <>
                <Link to="/secrets" search={{ connection: row.connection.name }} className="text-primary underline">
                  {row.connection.name}
                </Link>
                {row.connection.state && <span className={STATES[row.connection.state].tone}> · {STATES[row.connection.state].word}</span>}
              </>
            ) : (
              'none'
            )}
          </Fact>
        )}
        <Fact name="Read-only hints">{source.trust_hints ? 'believed' : 'not believed'}</Fact>
        <Fact name="Default tier">{source.default_tier ?? 'R3, as for all sources'}</Fact>
        <Fact name="For">{line(spaces)}</Fact>
        <Fact name="Time limits">
          {milliseconds(source.list_timeout_ms)} to list, {milliseconds(source.call_timeout_ms)} for a call
        </Fact>
        <Fact name="Last listed">
          {source.harvest.listed_at ? <When at={source.harvest.listed_at} /> : 'never'}
          {source.harvest.protocol && ` · MCP ${source.harvest.protocol}`}
        </Fact>
        <Fact name="Added">
          <When at={source.added_at} /> by {line(nameOf(source.added_by))}
          <Exactly at={source.added_at} />
        </Fact>
        {source.version > 1 && (
          <Fact name="Changed">
            <When at={source.changed_at} /> by {line(nameOf(source.changed_by))} · version {source.version}
          </Fact>
        )}
        {source.removed_at && (
          <Fact name="Removed">
            <When at={source.removed_at} />
          </Fact>
        )}
      </Facts>
    </Section>
  )
}

/** A source that nobody added: what is built in, or what a package brings. */
function Unadded({ source }: { source: Listed }) {
  const packages = useQuery({ ...packagesQuery, retry: false })
  const row = rowOfCatalogue(source, packages.data)
  const drifted = source.actions.filter(action => action.drift !== 'none')
  const reviews = useQueries({ queries: drifted.map(action => reviewQuery(action.id)) })
  const known = reviews.flatMap((review): Review[] => (review.data ? [review.data] : []))
  return (
    <div className="max-w-5xl pb-8">
      <Head row={row} />
      {known.length > 0 && (
        <Section title="To review">
          <Reviews reviews={known} />
        </Section>
      )}
      <Section title="Actions">
        <ul className="divide-y rounded-md border bg-panel">
          {source.actions.map(action => (
            <li key={action.id} className="grid items-center gap-x-4 px-3 py-2 sm:grid-cols-[minmax(0,1fr)_7rem_5rem]">
              <span className="min-w-0">
                <Link to="/actions" search={{ action: action.id }} className="font-mono text-[13px] font-medium hover:underline">
                  {action.id}
                </Link>
                {action.drift !== 'none' && (
                  <span className="ml-2">
                    <DriftMark>to review</DriftMark>
                  </span>
                )}
                <span className="block text-xs text-muted-fg">
                  <Foreign text={action.title} />
                </span>
              </span>
              <ModeWord mode={action.mode} className="text-xs" />
              <TierBadge tier={action.tier} />
            </li>
          ))}
        </ul>
      </Section>
      <Section title="At the command line">
        <div className="flex flex-col items-start gap-1">
          <Copy text={`countersign action list --source ${source.id}`} />
          <Copy text={`countersign action guide ${source.id}`} />
        </div>
      </Section>
    </div>
  )
}
