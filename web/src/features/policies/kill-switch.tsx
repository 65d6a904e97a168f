// The kill switch: stops everything, or a part of it, at once. Pending calls stay, and their clocks stop.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Foreign, fieldClass, Loading, Section, When } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { spacesQuery } from '@/lib/spaces'
import { quoted, scopeOf } from './model'
import { Labelled, MayNot, Select, submitted, TabHead, Who } from './parts'
import { changed, switchesQuery, switchOff, switchOn } from './queries'
import { useSessions } from './use-sessions'

const route = getRouteApi('/policies/kill-switch')

const STOPS: Record<Schemas['Stop'], { word: string; flag: string }> = {
  everything: { word: 'every call', flag: '' },
  except_dry_runs: { word: 'every call but dry runs', flag: ' --except-dry-runs' },
  as_dry_run: { word: 'every effect: calls are answered with their dry run', flag: ' --as-dry-run' },
}
const KINDS = [
  ['org', 'the whole org'],
  ['space', 'a space'],
  ['session', 'a session'],
  ['source', 'a source'],
  ['action', 'an action'],
] as const

export function KillSwitch() {
  const switches = useQuery(switchesQuery)
  const mayChange = useMay().includes('manage_policy')
  const on = switches.data?.items ?? []
  return (
    <>
      <TabHead name="Kill switch" verbs={<Copy text="countersign kill-switch list" />}>
        Stops execution at once, on every server. Pending calls stay in the inbox and their clocks stop; running calls end. Grants and
        sessions keep their expiry.
      </TabHead>
      <Asked query={switches} />
      {switches.isPending && <Loading />}
      {switches.data && on.length === 0 && <p className="mb-4 font-medium text-ok">✓ No kill switch is on.</p>}
      <ul aria-label="Kill switches that are on" className="space-y-2">
        {on.map(each => (
          <li key={each.scope}>
            <Active on={each} mayChange={mayChange} />
          </li>
        ))}
      </ul>
      {mayChange ? <TurnOn on={on} /> : <MayNot what="manage_policy" />}
    </>
  )
}

function Active({ on, mayChange }: { on: Schemas['SwitchView']; mayChange: boolean }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const [isAsking, setAsking] = useState(false)
  const [reason, setReason] = useState('')
  const command = `countersign kill-switch off ${on.scope}${reason.trim() ? ` --reason ${quoted(reason.trim())}` : ''}`
  return (
    <div className="flex flex-wrap items-center gap-3 rounded-md border border-danger bg-removed p-3">
      <div className="min-w-0 flex-1">
        <p className="font-medium">
          <code>{line(on.scope)}</code> is stopped: {STOPS[on.stop].word}
        </p>
        <p>
          “<Foreign text={on.reason} />”
        </p>
        <p className="text-xs">
          by <Who id={on.set_by} /> <When at={on.set_at} />
        </p>
      </div>
      {mayChange && <Button onClick={() => setAsking(true)}>Turn it off…</Button>}
      {isAsking && (
        <FormDialog
          title={`Turn the kill switch on ${on.scope} off`}
          verb="Turn it off"
          onClose={() => setAsking(false)}
          send={async () => {
            const { clocks } = await switchOff(on.scope, reason.trim() || undefined)
            setAsking(false)
            say(`${on.scope} runs again.${clocks ? ` The clocks of ${counted(clocks, 'pending call')} go on.` : ''}`)
            await changed(client)
          }}
        >
          <p>Everything it covered runs again, and approved calls that waited for it start.</p>
          <Labelled label="Why">
            <input
              value={reason}
              onChange={event => setReason(event.target.value)}
              placeholder="optional; recorded"
              className={fieldClass}
            />
          </Labelled>
          <Copy text={command} className="max-w-full" />
        </FormDialog>
      )}
    </div>
  )
}

function TurnOn({ on }: { on: readonly Schemas['SwitchView'][] }) {
  const { scope: asked } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/kill-switch' })
  const client = useQueryClient()
  const { say } = useToasts()
  const actions = useQuery(actionsQuery)
  const spaces = useQuery(spacesQuery)
  const { sessions, titleOf } = useSessions()
  const { kind, id } = scopeOf(asked ?? 'org')
  const [stop, setStop] = useState<Schemas['Stop']>('everything')
  const [reason, setReason] = useState('')
  const [isAsking, setAsking] = useState(false)
  const scope = kind === 'org' ? 'org' : `${kind}:${id}`
  const set = (next: string) => void navigate({ search: { scope: next }, replace: true })
  const targets: Record<string, readonly (readonly [string, string])[]> = {
    space: (spaces.data ?? []).map(each => [each.id, line(each.name)] as const),
    session: sessions.filter(each => !each.ended_at).map(each => [each.id, titleOf(each.id)] as const),
    source: (actions.data?.sources ?? []).map(each => [each.id, each.id] as const),
    action: (actions.data?.sources ?? []).flatMap(source => source.actions.map(each => [each.id, each.id] as const)),
  }
  const isOn = on.some(each => each.scope === scope)
  const isBad = !reason.trim() || (kind !== 'org' && !id)
  const command = `countersign kill-switch on ${scope} --reason ${quoted(reason.trim() || '…')}${STOPS[stop].flag}`
  return (
    <Section title="Turn one on">
      <form className="rounded-md border bg-panel p-4" onSubmit={submitted(() => setAsking(true))}>
        <div className="grid gap-3 sm:grid-cols-2">
          <Labelled label="What is stopped">
            <Select label="What is stopped" value={kind} onChange={next => set(next === 'org' ? 'org' : `${next}:`)} options={KINDS} />
          </Labelled>
          {kind !== 'org' && (
            <Labelled label="Which">
              <Select
                label="Which"
                value={id}
                onChange={next => set(`${kind}:${next}`)}
                options={[['', 'choose'], ...(targets[kind] ?? [])]}
              />
            </Labelled>
          )}
          <Labelled label="How much">
            <Select
              label="How much"
              value={stop}
              onChange={value => setStop(value as Schemas['Stop'])}
              options={Object.entries(STOPS).map(([value, { word }]) => [value, word] as const)}
            />
          </Labelled>
        </div>
        <div className="mt-3">
          <Labelled label="Why" help="It is recorded, and told to those whose calls are stopped.">
            <input value={reason} onChange={event => setReason(event.target.value)} className={fieldClass} />
          </Labelled>
        </div>
        <div className="mt-4 flex flex-wrap items-center gap-3">
          <Button look="danger" type="submit" disabled={isBad || isOn}>
            Stop it…
          </Button>
          <Copy text={command} className={cx('max-w-full')} />
          {isOn && <span className="text-xs text-muted-fg">This one is on already.</span>}
        </div>
      </form>
      {isAsking && (
        <FormDialog
          title={kind === 'org' ? 'Stop the whole org' : `Stop ${scope}`}
          verb="Stop it now"
          look="danger"
          onClose={() => setAsking(false)}
          send={async () => {
            const { clocks } = await switchOn({ scope, stop, reason: reason.trim() })
            setAsking(false)
            setReason('')
            say(`${scope} is stopped.${clocks ? ` The clocks of ${counted(clocks, 'pending call')} are paused.` : ''}`)
            await changed(client)
          }}
        >
          <p>
            It stops {STOPS[stop].word}{' '}
            {kind === 'org' ? (
              'of the org'
            ) : (
              <>
                of <code>{scope}</code>
              </>
            )}
            , at once. Agents are told: “{line(reason.trim())}”.
          </p>
        </FormDialog>
      )}
    </Section>
  )
}
