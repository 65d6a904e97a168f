// What starts an automation: each trigger with its state, and a webhook with the command that fires it.
import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Automation, Json, Schemas } from '@/api/types'
import { Pre } from '@/components/changes'
import { FormDialog } from '@/components/form-dialog'
import { Button, Copy, Failed, Foreign, Section, When } from '@/components/ui'
import { ShownOnce } from '@/features/settings/shown-once'
import { json, line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { FilterTest } from './filter-test'
import { curlOf, type Trigger } from './model'
import { changed, rotateToken, switchTrigger } from './queries'

type TriggerView = Schemas['TriggerView']

export function Triggers({ automation }: { automation: Automation }) {
  return (
    <Section title="What starts it" aside={<Copy text={`countersign trigger list ${automation.id}`} />}>
      {automation.triggers.length === 0 && <p className="text-muted-fg">It has no trigger: people and programs run it by name.</p>}
      <ul className="space-y-3">
        {automation.triggers.map(trigger => (
          <li key={trigger.id} className="rounded-md border bg-panel p-3">
            <One automation={automation} trigger={trigger} />
          </li>
        ))}
      </ul>
    </Section>
  )
}

function One({ automation, trigger }: { automation: Automation; trigger: TriggerView }) {
  const client = useQueryClient()
  const mayWrite = useMay().includes('invoke') && automation.status !== 'archived'
  const { error, busy, run } = useSending()
  const [isRotating, setRotating] = useState(false)
  const turn = (catchUp = false) =>
    void run('it', async () => {
      await switchTrigger(automation.id, trigger.id, !trigger.enabled, catchUp)
      changed(client)
    })
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h3 className="font-medium">
          <Foreign text={trigger.id} />
        </h3>
        <span className="text-muted-fg">{trigger.type}</span>
        {!trigger.enabled && (
          <span className="text-xs font-medium text-warn">◌ disabled{trigger.disabled_why && `: ${line(trigger.disabled_why)}`}</span>
        )}
        {mayWrite && (
          <span className="ml-auto flex flex-wrap gap-2">
            {trigger.has_token && (
              <Button aria-label={`New token for ${trigger.id}`} onClick={() => setRotating(true)}>
                New token…
              </Button>
            )}
            {trigger.type === 'schedule' && !trigger.enabled && (
              <Button
                busy={!!busy}
                aria-label={`Enable ${trigger.id}, and catch up`}
                title="It makes up for what it missed since it was disabled, as its catch_up says"
                onClick={() => turn(true)}
              >
                Enable, and catch up
              </Button>
            )}
            <Button busy={!!busy} aria-label={`${trigger.enabled ? 'Disable' : 'Enable'} ${trigger.id}`} onClick={() => turn()}>
              {trigger.enabled ? 'Disable' : 'Enable'}
            </Button>
          </span>
        )}
      </div>
      <p className="mt-1 text-xs text-muted-fg">
        {trigger.schedule && `${line(trigger.schedule)} · `}
        {trigger.next_due_at && trigger.enabled && (
          <>
            next <When at={trigger.next_due_at} /> ·{' '}
          </>
        )}
        {trigger.last_fired_at ? (
          <>
            last started a run <When at={trigger.last_fired_at} />
          </>
        ) : (
          'has started no run yet'
        )}
      </p>
      {trigger.fire_url && (
        <div className="mt-2">
          <Copy text={curlOf(trigger)} />
          {trigger.signed_by && (
            <p className="mt-1 text-xs text-muted-fg">Whoever sends it signs it with the secret {line(trigger.signed_by)}.</p>
          )}
        </div>
      )}
      {trigger.type === 'event' && <Listens automation={automation} trigger={trigger.id} />}
      {error && <Failed error={error} />}
      {isRotating && <Rotate automation={automation} trigger={trigger} onClose={() => setRotating(false)} />}
    </>
  )
}

/** Which events start it, and where those are that there were. */
function Listens({ automation, trigger }: { automation: Automation; trigger: string }) {
  const definition = (automation.definition ?? {}) as Json
  const found = ((definition.triggers ?? []) as Trigger[]).find(each => each.trigger_id === trigger)
  const type = typeof found?.config?.event_type === 'string' ? found.config.event_type : ''
  return (
    <div className="mt-2 space-y-2">
      <p>
        <code>{line(type)}</code>{' '}
        <Link to="/events" search={{ type: type.replace(/\.\*$/, '') }} className="text-primary underline">
          the newest of them
        </Link>
      </p>
      {found?.config?.filters != null && <Pre text={json(found.config.filters)} />}
      {type && <FilterTest eventType={type} filters={found?.config?.filters} space={automation.space_id} />}
    </div>
  )
}

function Rotate({ automation, trigger, onClose }: { automation: Automation; trigger: TriggerView; onClose: () => void }) {
  const client = useQueryClient()
  const [keepOld, setKeepOld] = useState(true)
  const [made, setMade] = useState<Schemas['HookTokenView']>()
  if (made)
    return (
      <ShownOnce title={`The new token of ${trigger.id}`} text={made.token} onClose={onClose}>
        <p>Whoever sends the webhook shows it, as in:</p>
        <p className="foreign font-mono text-xs">{curlOf({ fire_url: made.fire_url, has_token: true })}</p>
      </ShownOnce>
    )
  return (
    <FormDialog
      title={`A new token for ${trigger.id}`}
      verb="Make it"
      onClose={onClose}
      send={async () => {
        setMade(await rotateToken(automation.id, trigger.id, keepOld))
        changed(client)
      }}
    >
      <label className="flex min-h-9 items-center gap-2">
        <input type="checkbox" checked={keepOld} onChange={event => setKeepOld(event.target.checked)} className="size-4" /> Take the old one
        for another 24 hours
      </label>
      <Copy text={`countersign trigger rotate-token ${automation.id} ${trigger.id}${keepOld ? ' --keep-old' : ''}`} />
    </FormDialog>
  )
}
