// The last look before a definition is in force: which actions it calls and what happens to each, how it differs, and what to check.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { ApiError } from '@/api/client'
import type { Automation, Json, Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Loading } from '@/components/ui'
import { SecretPicker } from '@/features/secrets/picker'
import { ShownOnce } from '@/features/settings/shown-once'
import { automationQuery } from '@/lib/automations'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { curlOf, placesOf, signedTriggers, stillFlagged } from './model'
import { Differences, Mistakes, PlannedSteps, Schedules } from './parts'
import { changed, changesQuery, create, dropDraft, dryRunQuery, save } from './queries'
import type { Drafted } from './working'

type Props = {
  definition: Json
  space: string | undefined
  saved: Automation | undefined
  /** The draft that it was. */
  draft: Drafted | undefined
  onClose: () => void
  onSaved: () => void
  /** Somebody else has saved another version: this one. */
  onMeanwhile: (latest: Automation) => void
}

export function Review({ definition, space, saved, draft, onClose, onSaved, onMeanwhile }: Props) {
  const client = useQueryClient()
  const [secrets, setSecrets] = useState<Record<string, string>>({})
  const [accepted, setAccepted] = useState<string[]>([])
  const [done, setDone] = useState<Schemas['SavedAutomationResponse']>()
  const lacking = signedTriggers(definition).filter(
    id => !secrets[id] && !saved?.triggers.some(trigger => trigger.id === id && trigger.signed_by),
  )
  const flags = draft ? stillFlagged(draft, definition) : []
  const places = placesOf(flags)
  const send = async () => {
    const saving = { definition, space, signing_secrets: secrets }
    try {
      const answer = await (saved ? save(saved, saving) : create(saving))
      onSaved()
      // One that cannot be dropped now, or is gone already, is gone tomorrow.
      if (draft) await dropDraft(draft.id).catch(() => {})
      changed(client)
      setDone(answer)
    } catch (cause) {
      if (!(cause instanceof ApiError) || !saved || cause.problem.status !== 412) throw cause
      onMeanwhile(await client.fetchQuery({ ...automationQuery(saved.id), staleTime: 0 }))
    }
  }
  if (done) return <Saved done={done} />
  return (
    <FormDialog
      title="Review and save"
      verb={saved ? 'Save as a new version' : 'Save it'}
      wide
      disabled={lacking.length > 0 || places.some(place => !accepted.includes(place))}
      send={send}
      onClose={onClose}
    >
      <WhatItDoes definition={definition} space={saved?.space_id ?? space} automation={saved?.id} isFlagged={!!draft} />
      {saved && <Changed automation={saved.id} definition={definition} />}
      <SigningSecrets definition={definition} saved={saved} secrets={secrets} onChange={setSecrets} />
      <Mistakes title="Worth checking, as it was in the draft" mistakes={flags} tone="warn" />
      <Ticks places={places} accepted={accepted} onChange={setAccepted} />
      <p className="text-muted-fg">It acts for you from now on{saved ? '. Runs that have begun keep their version.' : '.'}</p>
    </FormDialog>
  )
}

/** One tick for each place that must be read. */
export function Ticks({
  places,
  accepted,
  onChange,
}: {
  places: readonly string[]
  accepted: readonly string[]
  onChange: (accepted: string[]) => void
}) {
  return places.map(place => (
    <label key={place} className="flex min-h-9 items-center gap-2">
      <input
        type="checkbox"
        checked={accepted.includes(place)}
        onChange={event => onChange([...accepted.filter(other => other !== place), ...(event.target.checked ? [place] : [])])}
        className="size-4"
      />
      <span>
        I have read <span className="foreign font-mono text-xs">{line(place) || 'the whole'}</span>
      </span>
    </label>
  ))
}

/** The steps with their modes, the schedules, and what is worth checking, unless the page says that already. */
export function WhatItDoes({
  definition,
  space,
  automation,
  isFlagged,
}: {
  definition: Json
  space: string | undefined
  automation: string | undefined
  isFlagged?: boolean
}) {
  const plan = useQuery(dryRunQuery(definition, space, automation))
  if (plan.error) return <Mistakes title="What is wrong with it" mistakes={(plan.error as ApiError).problem?.mistakes ?? []} />
  if (!plan.data) return <Loading />
  return (
    <>
      <PlannedSteps plan={plan.data} />
      {plan.data.schedules.length > 0 && <Schedules schedules={plan.data.schedules} />}
      <Mistakes title={counted(plan.data.warnings.length, 'warning')} mistakes={plan.data.warnings} tone="warn" />
      {!isFlagged && <Mistakes title="Worth checking" mistakes={plan.data.flags} tone="warn" />}
    </>
  )
}

/** How a definition differs from the saved one of its automation. */
export function Changed({ automation, definition }: { automation: string; definition: Json }) {
  const changes = useQuery(changesQuery(automation, definition))
  if (!changes.data) return null
  return (
    <section aria-label="What changes">
      <h3 className="mb-1 text-sm font-medium">What changes, from version {changes.data.version}</h3>
      <Differences changes={changes.data.changes} />
    </section>
  )
}

type SecretsProps = {
  definition: Json
  saved: Automation | undefined
  secrets: Record<string, string>
  onChange: (secrets: Record<string, string>) => void
}

/** Which secret signs what a webhook is sent, for each that takes signatures. */
export function SigningSecrets({ definition, saved, secrets, onChange }: SecretsProps) {
  return signedTriggers(definition).map(id => {
    const kept = saved?.triggers.find(trigger => trigger.id === id)?.signed_by
    return (
      <div key={id}>
        <p className="mb-1 font-medium">
          The secret that signs <code>{line(id)}</code>
        </p>
        <SecretPicker
          label={`The secret that signs ${id}`}
          value={secrets[id] ?? ''}
          onChange={secret => onChange({ ...secrets, [id]: secret })}
        />
        {kept && <p className="mt-1 text-xs text-muted-fg">If none is chosen, it stays {line(kept)}.</p>}
      </div>
    )
  })
}

/** What is shown once after saving: the token of each new webhook. Then to the page of the automation. */
export function Saved({ done }: { done: Schemas['SavedAutomationResponse'] }) {
  const navigate = useNavigate()
  const [at, setAt] = useState(0)
  const token = done.tokens[at]
  const leave = () => {
    if (done.automation) void navigate({ to: '/automations/$automation', params: { automation: done.automation.id } })
    else if (done.draft) void navigate({ to: '/automations/drafts/$draft', params: { draft: done.draft.id } })
  }
  if (!token) return <Leave leave={leave} />
  return (
    <ShownOnce
      key={token.trigger_id}
      title={`The token of the webhook ${token.trigger_id}`}
      text={token.token}
      onClose={() => (at + 1 < done.tokens.length ? setAt(at + 1) : leave())}
    >
      <p>Whoever sends the webhook shows it, as in:</p>
      <p className="foreign font-mono text-xs">{curlOf({ fire_url: token.fire_url, has_token: true })}</p>
    </ShownOnce>
  )
}

/** Leaves as soon as it is shown. */
function Leave({ leave }: { leave: () => void }) {
  const latest = useRef(leave)
  useEffect(() => latest.current(), [])
  return null
}
