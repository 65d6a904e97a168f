// The simulator: recorded calls under proposed policies and modes, and where they would fare otherwise.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { X } from 'lucide-react'
import { useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Mode, Schemas } from '@/api/types'
import { Button, Copy, cx, Empty, Failed, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { counted } from '@/lib/format'
import { useDraft } from './draft'
import { KINDS, kindOf, MODES, modesIn, modesText, WOULD } from './model'
import { Select, submitted, TabHead, Who } from './parts'
import { type Proposal, whatIfQuery } from './queries'

const route = getRouteApi('/policies/what-if')
const LASTS = ['24h', '7d', '30d', '90d'] as const
/** Of thousands, the newest are read. */
const AT_ONCE = 200

export function WhatIf() {
  const { last = '7d', modes: text, kind } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/what-if' })
  const { draft } = useDraft()
  const modes = modesIn(text)
  const proposal: Proposal | undefined =
    draft || modes.length > 0 ? { policies: draft?.texts ?? null, modes: modes.length > 0 ? modes : null, last } : undefined
  const tried = useQuery(whatIfQuery(proposal))
  const setModes = (next: { action: string; mode: Mode }[]) =>
    void navigate({ search: old => ({ ...old, modes: modesText(next) }), replace: true })
  return (
    <>
      <TabHead name="What if" verbs={<Copy text={`countersign policy what-if policies.toml --last ${last}`} />}>
        Every recorded call is decided twice: by the rules in force now, and by what you propose. Nothing is changed and nothing runs.
      </TabHead>
      <div className="rounded-md border bg-panel p-4">
        <h2 className="font-medium">The proposal</h2>
        <ul className="mt-2 space-y-2">
          <li className="flex flex-wrap items-center gap-x-2">
            {draft ? (
              <>
                <span className="font-medium text-warn">●</span> Your draft of the policies
                <Link to="/policies/cedar" className="text-primary underline">
                  edit
                </Link>
              </>
            ) : (
              <>
                <span className="text-muted-fg">The policies in force.</span>
                <Link to="/policies/cedar" className="text-primary underline">
                  Draft others
                </Link>
              </>
            )}
          </li>
          {modes.map(({ action, mode }) => (
            <li key={action} className="flex items-center gap-2">
              <code className="foreign text-[13px]">
                org: {action} → {mode}
              </code>
              <button
                type="button"
                aria-label={`Without ${action}`}
                className="rounded p-1 text-muted-fg hover:bg-muted hover:text-fg"
                onClick={() => setModes(modes.filter(each => each.action !== action))}
              >
                <X className="size-3.5" />
              </button>
            </li>
          ))}
        </ul>
        <AddMode onAdd={added => setModes([...modes.filter(each => each.action !== added.action), added])} />
        <div className="mt-3 flex flex-wrap items-center gap-2 border-t pt-3">
          On the calls of the last
          <Select
            label="How far back"
            value={last}
            onChange={value => void navigate({ search: old => ({ ...old, last: value }), replace: true })}
            options={LASTS.map(each => [each, each] as const)}
            className="max-w-28"
          />
        </div>
      </div>
      {!proposal && (
        <Empty title="Nothing is proposed yet">
          Add a mode above, or draft policies in the{' '}
          <Link to="/policies/cedar" className="text-primary underline">
            editor
          </Link>
          .
        </Empty>
      )}
      {proposal && tried.error && <Refused error={tried.error as ApiError} retry={() => void tried.refetch()} />}
      {proposal && tried.isPending && <Loading />}
      {proposal && tried.data && (
        <Result
          tried={tried.data}
          kind={KINDS.find(each => each.kind === kind)?.kind}
          onKind={next => void navigate({ search: old => ({ ...old, kind: next }), replace: true })}
        />
      )}
    </>
  )
}

/** A draft that is not valid is mended where it is written. */
function Refused({ error, retry }: { error: ApiError; retry: () => void }) {
  if (error.code !== 'invalid_policy') return <Failed error={error} retry={retry} />
  return (
    <Empty title="The draft is not valid">
      It can be tried once the{' '}
      <Link to="/policies/cedar" className="text-primary underline">
        editor
      </Link>{' '}
      finds no problem in it.
    </Empty>
  )
}

function AddMode({ onAdd }: { onAdd: (mode: { action: string; mode: Mode }) => void }) {
  const actions = useQuery(actionsQuery)
  const [action, setAction] = useState('')
  const [mode, setMode] = useState<Mode>('deny')
  return (
    <form
      className="mt-3 flex flex-wrap gap-2"
      onSubmit={submitted(() => {
        if (action.trim()) onAdd({ action: action.trim(), mode })
        setAction('')
      })}
    >
      <input
        aria-label="Action"
        placeholder="an action, such as files.write_text"
        list="what-if-actions"
        value={action}
        onChange={event => setAction(event.target.value)}
        className={cx(fieldClass, 'font-mono text-[13px] sm:max-w-80')}
      />
      <datalist id="what-if-actions">
        {actions.data?.sources.flatMap(source => source.actions.map(each => <option key={each.id} value={each.id} />))}
      </datalist>
      <Select
        label="Mode"
        value={mode}
        onChange={value => setMode(value as Mode)}
        options={MODES.map(each => [each, each] as const)}
        className="max-w-48"
      />
      <Button type="submit" disabled={!action.trim()}>
        Add this mode
      </Button>
    </form>
  )
}

type ResultProps = {
  tried: Schemas['WhatIfResponse']
  kind: (typeof KINDS)[number]['kind'] | undefined
  onKind: (kind: string | undefined) => void
}

function Result({ tried, kind, onKind }: ResultProps) {
  const [most, setMost] = useState(AT_ONCE)
  const { changes, replayed, skipped, stopped, quarantined, truncated } = tried
  const listed = changes.filter(change => !kind || kindOf(change) === kind)
  const left = [
    skipped > 0 && `${skipped} could not be decided again`,
    !!stopped && `${stopped} were stopped by a kill switch`,
    !!quarantined && `${quarantined} were quarantined`,
  ].filter(Boolean)
  return (
    <section aria-label="What would change" className="mt-4">
      <div className="grid gap-2 sm:grid-cols-3">
        {KINDS.map(each => {
          const count = changes.filter(change => kindOf(change) === each.kind).length
          return (
            <button
              key={each.kind}
              type="button"
              aria-pressed={kind === each.kind}
              onClick={() => onKind(kind === each.kind ? undefined : each.kind)}
              className={cx('rounded-md border bg-panel p-3 text-left hover:bg-muted', kind === each.kind && 'border-primary bg-accent')}
            >
              <span className="text-xl font-semibold tabular-nums">{count}</span> {each.name}
              <span className="block text-xs text-muted-fg">{each.means}</span>
            </button>
          )
        })}
      </div>
      <p className="mt-2 text-xs text-muted-fg">
        {counted(replayed, 'call')} decided again{truncated && ', the newest of more'}
        {left.length > 0 && `; ${left.join(', ')}`}.
      </p>
      {changes.length === 0 && <Empty title="No recorded call would fare otherwise" />}
      <ul className="mt-3 divide-y rounded-md border bg-panel empty:hidden">
        {listed.slice(0, most).map(change => (
          <li key={change.invocation_id}>
            <Link
              to="/"
              search={{ tab: 'decided', call: change.invocation_id }}
              className="grid gap-x-4 px-3 py-2 hover:bg-muted sm:grid-cols-[minmax(0,1fr)_auto]"
            >
              <span className="min-w-0">
                <span className="font-mono text-[13px] font-medium">{change.action}</span>{' '}
                <span className={WOULD[change.before].tone}>{WOULD[change.before].word}</span> →{' '}
                <span className={cx('font-medium', WOULD[change.after].tone)}>{WOULD[change.after].word}</span>
                <Foreign text={change.because} className="block text-xs text-muted-fg" />
              </span>
              <span className="text-xs text-muted-fg sm:text-right">
                <When at={change.created_at} />
                <span className="block truncate">
                  <Who id={change.principal} />
                </span>
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {listed.length > most && (
        <div className="py-3 text-center">
          <Button onClick={() => setMost(most + AT_ONCE)}>Show more of {listed.length}</Button>
        </div>
      )}
    </section>
  )
}
