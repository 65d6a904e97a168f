// The mode table: what is set for each action, what that comes to, and why.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { Lock } from 'lucide-react'
import { useState } from 'react'
import type { Action, Mode, Schemas } from '@/api/types'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Asked } from '@/components/list-page'
import { ModeWord, TierBadge } from '@/components/status'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Empty, Failed, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { MODE_SOURCES } from '@/lib/decision'
import { useMay } from '@/lib/me'
import { rank } from '@/lib/search'
import { useSending } from '@/lib/sending'
import { spacesQuery } from '@/lib/spaces'
import { MODES, ruleText, scopeOf } from './model'
import { MayNot, Select, submitted, TabHead, voidedText, Who } from './parts'
import { availableQuery, changed, modesQuery, modeVersionsQuery, setMode } from './queries'
import { useSessions } from './use-sessions'
import { WhatIfSummary } from './what-if-summary'

const route = getRouteApi('/policies/')

export function Modes() {
  const { q = '', as, automation, only, action: chosen } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/' })
  const set =
    (name: 'q' | 'as' | 'automation' | 'only' | 'action', replace = true) =>
    (value: string) =>
      void navigate({ search: old => ({ ...old, [name]: value || undefined }), replace })
  const modes = useQuery(modesQuery)
  const everywhere = useQuery({ ...actionsQuery, enabled: !as })
  const inSession = useQuery(availableQuery(as))
  const actions = as ? inSession : everywhere
  const { sessions, titleOf } = useSessions()
  const spaces = useQuery(spacesQuery)

  const scope = automation ? `automation:${automation}` : 'org'
  const rows = new Map((modes.data ?? []).filter(row => row.scope === scope).map(row => [row.action, row]))
  const known = actions.data?.sources.flatMap(source => source.actions) ?? []
  const listed = known.filter(action => rank(`${action.id} ${action.title}`, q) > 0 && (only !== 'set' || rows.has(action.id)))
  const gone = [...rows.values()].filter(row => actions.data && !known.some(action => action.id === row.action))
  const automations = new Set([
    ...(modes.data ?? [])
      .map(row => scopeOf(row.scope))
      .filter(each => each.kind === 'automation')
      .map(each => each.id),
    ...sessions.flatMap(session => session.automation_id ?? []),
  ])
  const nameOf = (space: string) => spaces.data?.find(each => each.id === space)?.name ?? space

  return (
    <>
      <TabHead
        name="Modes"
        verbs={<Copy text={automation ? `countersign mode list --automation ${automation}` : 'countersign mode list'} />}
      >
        What happens to a call of each action. What is not set follows from the tier. A band, drift, a policy or a kill switch can make it
        stricter, never looser.
      </TabHead>
      <div className="grid grid-cols-2 gap-2 pb-3 lg:grid-cols-4">
        <input
          type="search"
          aria-label="Filter"
          placeholder="Filter"
          value={q}
          onChange={event => set('q')(event.target.value)}
          className={cx(fieldClass, 'max-lg:col-span-2')}
        />
        <Select
          label="Set or not"
          value={only ?? ''}
          onChange={set('only')}
          options={[
            ['', 'all actions'],
            ['set', 'only those that are set'],
          ]}
        />
        <Select
          label="Set for"
          value={automation ?? ''}
          onChange={set('automation')}
          options={[['', 'set for the org'], ...[...automations].map(each => [each, `set for ${each}`] as const)]}
        />
        <Select
          label="Comes to, where"
          value={as ?? ''}
          onChange={set('as')}
          options={[
            ['', 'comes to, in a green space'],
            ...sessions
              .filter(each => !each.ended_at)
              .map(each => [each.id, `comes to, for ${titleOf(each.id)} in ${nameOf(each.space_id)}`] as const),
          ]}
          className="max-lg:col-span-2"
        />
      </div>
      <Asked query={modes} />
      <Asked query={actions} />
      {(actions.isPending || modes.isPending) && !actions.error && <Loading />}
      {actions.data && modes.data && (
        <div className="overflow-hidden rounded-md border bg-panel">
          <div
            aria-hidden
            className="hidden grid-cols-[minmax(0,1fr)_14rem_16rem] gap-4 border-b bg-muted px-3 py-1.5 text-xs font-semibold text-muted-fg lg:grid"
          >
            <span>Action</span>
            <span>Set for {automation ? automation : 'the org'}</span>
            <span>Comes to</span>
          </div>
          <ul aria-label="Modes" className="divide-y">
            {listed.map(action => (
              <li key={action.id}>
                <Row action={action} row={rows.get(action.id)} onOpen={() => set('action', false)(action.id)} />
              </li>
            ))}
            {gone.map(row => (
              <li key={row.action} className="px-3 py-2">
                <button
                  type="button"
                  className="text-left font-mono text-[13px] underline"
                  onClick={() => set('action', false)(row.action)}
                >
                  {row.action}
                </button>
                <span className="ml-3 text-xs text-muted-fg">
                  {row.mode} is set, and no source {as ? 'of this session ' : ''}has this action now
                </span>
              </li>
            ))}
          </ul>
          {listed.length + gone.length === 0 && (
            <Empty title={only === 'set' ? 'No mode is set here' : 'No action is called so'}>
              {only === 'set' && <p>Every action has the mode of its tier. Set one with a click on it, or:</p>}
              {only === 'set' && <Copy text="countersign mode set files.write_text allow" />}
            </Empty>
          )}
        </div>
      )}
      {chosen && modes.data && (
        <ModeDialog
          key={`${scope}${chosen}`}
          action={chosen}
          automation={automation}
          row={rows.get(chosen)}
          tier={known.find(each => each.id === chosen)?.tier}
          onClose={() => set('action')('')}
        />
      )}
    </>
  )
}

function Row({ action, row, onOpen }: { action: Action; row: Schemas['ModeView'] | undefined; onOpen: () => void }) {
  return (
    <button
      type="button"
      onClick={onOpen}
      className="relative grid w-full gap-x-4 gap-y-1 px-3 py-2 text-left hover:bg-muted lg:grid-cols-[minmax(0,1fr)_14rem_16rem]"
    >
      <span className="min-w-0">
        <span className="block truncate font-mono text-[13px] font-medium">{action.id}</span>
        <span className="flex items-center gap-2 text-xs text-muted-fg">
          <TierBadge tier={action.tier} />
          <Foreign text={action.title} className="truncate" />
        </span>
      </span>
      <span className="min-w-0 text-sm">
        {row ? (
          <>
            <span className="flex items-center gap-1.5">
              <span className="text-xs text-muted-fg lg:hidden">set:</span>
              <code className="text-[13px]">{row.mode}</code>
              {row.locked && <Lock aria-label="locked: automations can only tighten it" className="size-3.5" />}
            </span>
            <span className="block truncate text-xs text-muted-fg">
              <When at={row.set_at} /> by <Who id={row.set_by} />
            </span>
          </>
        ) : (
          <span className="text-muted-fg max-lg:hidden">
            –<span className="sr-only"> not set</span>
          </span>
        )}
      </span>
      <span className="min-w-0 text-sm">
        <ModeWord mode={action.mode} className="font-medium" />
        <span className="block text-xs text-muted-fg">{[MODE_SOURCES[action.mode_source], ...(action.tightened ?? [])].join(' → ')}</span>
      </span>
    </button>
  )
}

type Choice = Mode | 'unset'

type DialogProps = {
  action: string
  automation: string | undefined
  row: Schemas['ModeView'] | undefined
  tier: Schemas['Tier'] | undefined
  onClose: () => void
}

/** The rule before it is written, and what it would have done to the calls of the last days. */
function ModeDialog({ action, automation, row, tier, onClose }: DialogProps) {
  const client = useQueryClient()
  const { say } = useToasts()
  const mayChange = useMay().includes('manage_policy')
  const versions = useQuery(modeVersionsQuery(action))
  const [choice, setChoice] = useState<Choice>(row?.mode ?? 'unset')
  const [locked, setLocked] = useState(row?.locked ?? false)
  const { error, busy, run } = useSending()
  const mode = choice === 'unset' ? undefined : choice
  const isLocked = locked && !automation && !!mode
  const isSame = choice === (row?.mode ?? 'unset') && isLocked === (row?.locked ?? false)
  const scope = automation ? `automation:${automation}` : 'org'
  const forAutomation = automation ? ` --automation ${automation}` : ''
  const command = mode
    ? `countersign mode set ${action} ${mode}${isLocked ? ' --locked' : ''}${forAutomation}`
    : `countersign mode unset ${action}${forAutomation}`
  const save = async () => {
    const { voided } = await setMode(action, automation, mode, isLocked)
    say(`${ruleText(scope, action, mode, isLocked)}.${voidedText(voided)}`)
    onClose()
    await changed(client)
  }
  return (
    <Dialog title={`Mode of ${action}`} onClose={onClose} wide>
      <form onSubmit={submitted(() => void run('it', save))}>
        <fieldset className="mt-3 flex flex-wrap gap-2" disabled={!mayChange}>
          <legend className="sr-only">Mode</legend>
          {(['unset', ...MODES] as const).map(each => (
            <label
              key={each}
              className={cx(
                'flex min-h-9 cursor-pointer items-center gap-2 rounded-md border px-3 max-md:min-h-11',
                choice === each && 'border-primary bg-accent',
              )}
            >
              <input type="radio" name="mode" checked={choice === each} onChange={() => setChoice(each)} className="accent-primary" />
              {each === 'unset' ? automation ? 'as the org' : 'as its tier' : <code>{each}</code>}
            </label>
          ))}
        </fieldset>
        {!automation && (
          <label className="mt-3 flex items-center gap-2">
            <input
              type="checkbox"
              checked={isLocked}
              disabled={!mayChange || !mode}
              onChange={event => setLocked(event.target.checked)}
              className="size-4 accent-primary"
            />
            Locked: automations can only tighten it
          </label>
        )}
        <pre className="mt-3 rounded-md border bg-muted p-3 font-mono text-xs whitespace-pre-wrap">
          {ruleText(scope, action, mode, isLocked)}
        </pre>
        {tier === 'R4' && mode === 'allow' && <p className="mt-2 text-xs">R4 never runs without a person: a call would be asked about.</p>}
        {!isSame && mode && (
          <WhatIfSummary
            proposal={{ policies: null, modes: [{ action, mode, locked: isLocked, automation: automation ?? null }], last: '7d' }}
          />
        )}
        {!isSame && !mode && <p className="mt-2 text-xs text-muted-fg">Only modes that are set can be tried on recorded calls.</p>}
        {!mayChange && <MayNot what="manage_policy" />}
        {error && <Failed error={error} />}
        <DialogFoot>
          <Copy text={command} className="mr-auto" />
          <Button look="quiet" onClick={onClose}>
            {mayChange ? 'Cancel' : 'Close'}
          </Button>
          {mayChange && (
            <Button look="primary" type="submit" busy={!!busy} disabled={isSame}>
              {mode ? 'Set' : 'Unset'}
            </Button>
          )}
        </DialogFoot>
      </form>
      <h3 className="mt-5 text-xs font-semibold tracking-wide text-muted-fg uppercase">Who set it</h3>
      <Asked query={versions} />
      {versions.data?.items.length === 0 && <p className="text-muted-fg">Nobody has ever set it.</p>}
      <ul className="mt-1 space-y-1 text-xs">
        {versions.data?.items.map(each => (
          <li key={each.version} className="flex flex-wrap gap-x-3">
            <span className="text-muted-fg">v{each.version}</span>
            <code>{ruleText(each.scope, '', each.mode ?? undefined, each.locked).replace(':  →', ' →')}</code>
            <span className="text-muted-fg">
              <When at={each.changed_at} /> by <Who id={each.changed_by} />
            </span>
          </li>
        ))}
      </ul>
      <p className="mt-3 flex flex-wrap gap-4 text-xs">
        <Link to="/actions" search={{ action }} className="text-primary underline">
          The action
        </Link>
        <Link to="/policies/explain" search={{ action }} className="text-primary underline">
          Explain a call of it
        </Link>
      </p>
    </Dialog>
  )
}
