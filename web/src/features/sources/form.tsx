// One form for a source: where it is, which credential it takes, what is believed of it. Adding it and changing it use the same.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus, X } from 'lucide-react'
import { type ReactNode, useId, useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Tier } from '@/api/types'
import { Field, TellBeside, type Told, toldOf } from '@/components/field'
import { SpacesField } from '@/components/spaces-field'
import { Button, fieldClass } from '@/components/ui'
import { AllowHost } from '@/features/secrets/allow-host'
import { SecretPicker } from '@/features/secrets/picker'
import { line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { Credential } from './credential'
import { type Draft, draftOf, editOf, missing, type Place, placeOf, placeOfError, requestOf, testedSource, words } from './model'
import type { Preset } from './presets'
import { type AddedSource, addSource, editSource, serversQuery, testSource } from './queries'

const TIERS: readonly { tier: Tier; words: string }[] = [
  { tier: 'R0', words: 'R0 · a harmless read' },
  { tier: 'R1', words: 'R1 · a read' },
  { tier: 'R2', words: 'R2 · a write' },
  { tier: 'R3', words: 'R3 · a write that matters' },
  { tier: 'R4', words: 'R4 · destroys data' },
]

type Props = { start: Draft; preset?: Preset; before?: AddedSource; onDone: (source: AddedSource) => void; onCancel: () => void }

export function SourceForm({ start, preset, before: latest, onDone, onCancel }: Props) {
  const client = useQueryClient()
  // An edit is for the version that was seen when it began: if somebody else changes it meanwhile, the server says so.
  const [before] = useState(latest)
  const form = useId()
  const [draft, setDraft] = useState(start)
  const mayMake = useMay().includes('manage_identity')
  const [wantsNew, setWantsNew] = useState(!!preset && preset.credential !== 'none')
  const isMaking = wantsNew && mayMake && draft.kind === 'http'
  const { error, busy, run, clear } = useSending()
  const set = (more: Partial<Draft>) => {
    // What was said of the old text is not said of the new one.
    clear()
    setDraft(old => ({ ...old, ...more }))
  }
  const at = error ? placeOfError(error) : undefined
  const told = (place: Place): Told | undefined => (error && at === place ? toldOf(error) : undefined)
  const lacks = missing(draft) ?? (isMaking ? 'Make the connection first, or choose another.' : undefined)
  const send = () =>
    run('it', async () => {
      const done = before ? await editSource(before.id, editOf(before, draft)) : await addSource(requestOf(draft))
      await client.invalidateQueries()
      onDone(done)
    })
  return (
    <div className="max-w-2xl space-y-8">
      <form
        id={form}
        aria-label={before ? `Edit ${before.id}` : 'Add a source'}
        onSubmit={event => {
          event.preventDefault()
          if (!lacks) void send()
        }}
      >
        <Part title="Where it is">
          {before ? <Fixed source={before} /> : <Where draft={draft} set={set} told={told} error={error} />}
          <div className="grid gap-4 sm:grid-cols-2">
            {!before && (
              <Field label="Name" help="The first part of the ids of its actions. It stays what it is." told={told('name')}>
                {props => (
                  <input
                    {...props}
                    required
                    pattern="[a-z][a-z0-9_\-]{0,31}"
                    title="1 to 32 lower-case letters, digits, _ and -; the first is a letter"
                    value={draft.name}
                    onChange={event => set({ name: event.target.value })}
                    className={fieldClass}
                  />
                )}
              </Field>
            )}
            <Field label="Title" help="What people read.">
              {props => (
                <input {...props} value={draft.title} onChange={event => set({ title: event.target.value })} className={fieldClass} />
              )}
            </Field>
          </div>
        </Part>
      </form>
      {draft.kind === 'http' ? (
        <Part title="Credential">
          <Credential
            draft={draft}
            preset={preset}
            told={told('connection')}
            mayMake={mayMake}
            isMaking={isMaking}
            onChoose={(connection, isNew) => {
              set({ connection })
              setWantsNew(isNew)
            }}
          />
        </Part>
      ) : (
        !before && (
          <Part title="Variables">
            <Variables draft={draft} set={set} />
          </Part>
        )
      )}
      <Part title="What is believed of it">
        <label className="flex gap-3">
          <input
            type="checkbox"
            className="mt-1"
            checked={draft.trustHints}
            onChange={event => set({ trustHints: event.target.checked })}
          />
          <span>
            Believe the server when it says that a tool only reads
            <span className="block text-xs text-muted-fg">
              Such tools run without asking. A hint is a promise, and a server can lie. Its warnings always count.
            </span>
          </span>
        </label>
        <Field label="Tier of tools about which nothing is known" help="A tier can be set for each tool afterwards.">
          {props => (
            <select
              {...props}
              value={draft.defaultTier}
              onChange={event => set({ defaultTier: event.target.value as Draft['defaultTier'] })}
              className={fieldClass}
            >
              <option value="">as for all sources (R3: asks a person)</option>
              {TIERS.map(({ tier, words }) => (
                <option key={tier} value={tier}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <details open={before ? undefined : draft.spaces !== null}>
          <summary className="cursor-pointer text-muted-fg">Spaces and time limits</summary>
          <div className="mt-3 space-y-4">
            <SpacesField chosen={draft.spaces} onChange={spaces => set({ spaces })} />
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label="Seconds to list its actions">
                {props => <Seconds {...props} value={draft.listSeconds} onChange={listSeconds => set({ listSeconds })} />}
              </Field>
              <Field label="Seconds for a call">
                {props => <Seconds {...props} value={draft.callSeconds} onChange={callSeconds => set({ callSeconds })} />}
              </Field>
            </div>
          </div>
        </details>
      </Part>
      {error && (at === 'other' || (before && at === 'place')) && <TellBeside told={toldOf(error)} />}
      <div className="flex flex-wrap items-center gap-2 border-t pt-4">
        <Button look="primary" type="submit" form={form} busy={!!busy} disabled={!!lacks}>
          {before ? 'Save' : 'Add'}
        </Button>
        <Button look="quiet" onClick={onCancel}>
          Cancel
        </Button>
        <span aria-live="polite" className="text-xs text-muted-fg">
          {busy
            ? 'The server is asked for its actions…'
            : (lacks ?? (before ? '' : 'The server is asked for its actions first. If that fails, nothing is added.'))}
        </span>
      </div>
    </div>
  )
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="space-y-4">
      <h2 className="text-xs font-semibold tracking-wide text-muted-fg uppercase">{title}</h2>
      {children}
    </section>
  )
}

function Seconds({ value, onChange, ...props }: { value: string; onChange: (value: string) => void; id: string }) {
  return (
    <input
      {...props}
      inputMode="decimal"
      placeholder="as long as is allowed"
      value={value}
      onChange={event => onChange(event.target.value)}
      className={fieldClass}
    />
  )
}

type WhereProps = {
  draft: Draft
  set: (more: Partial<Draft>) => void
  told: (place: Place) => Told | undefined
  error: ApiError | undefined
}

function Where({ draft, set, told, error }: WhereProps) {
  const servers = useQuery(serversQuery)
  return (
    <>
      <fieldset className="-mt-2">
        <legend className="sr-only">Kind</legend>
        {(['http', 'program', 'package'] as const).map(kind => (
          <label key={kind} className="mr-4 inline-flex min-h-9 items-center gap-2">
            <input type="radio" name="kind" checked={draft.kind === kind} onChange={() => set({ kind })} />
            {{ http: 'at an address', program: 'a program', package: 'of a package' }[kind]}
          </label>
        ))}
      </fieldset>
      {draft.kind === 'http' && (
        <Field label="Address" help="Over streamable HTTP, with the path." told={told('place')}>
          {props => (
            <input
              {...props}
              type="url"
              required
              placeholder="https://mcp.example.com/mcp"
              value={draft.url}
              onChange={event => set({ url: event.target.value })}
              className={fieldClass}
            />
          )}
        </Field>
      )}
      <AllowHost error={error} url={draft.url} />
      {draft.kind === 'program' && (
        <Field
          label="Command"
          help={`An operator allows it, word by word: ${words(draft.command).length} words. One who adds it with countersign source add NAME -- COMMAND allows it with that.`}
          told={told('place')}
        >
          {props => (
            <input
              {...props}
              required
              spellCheck={false}
              placeholder="node /opt/mcp/index.js"
              value={draft.command}
              onChange={event => set({ command: event.target.value })}
              className={`${fieldClass} font-mono text-xs`}
            />
          )}
        </Field>
      )}
      {draft.kind === 'package' && (
        <Field
          label="Package"
          help={servers.data?.length === 0 ? 'No installed package has an MCP server.' : undefined}
          told={told('place')}
        >
          {props => (
            <select
              {...props}
              required
              value={draft.package}
              onChange={event => set({ package: event.target.value })}
              className={fieldClass}
            >
              <option value="">choose a package</option>
              {servers.data?.map(each => (
                <option key={each.name}>{each.name}</option>
              ))}
            </select>
          )}
        </Field>
      )}
    </>
  )
}

/** What an edit cannot change, and the test that says whether it is there. */
function Fixed({ source }: { source: AddedSource }) {
  const [told, setTold] = useState<Told>()
  const { error, busy, run } = useSending()
  const test = () => {
    setTold(undefined)
    return run('it', async () => setTold(testedSource(await testSource(source.id))))
  }
  return (
    <Field
      label={{ http: 'Address', program: 'Command', package: 'Package' }[draftOf(source).kind]}
      help="It stays what it is, as do its name and its variables. For another, add another source."
      told={told ?? (error && toldOf(error))}
      aside={
        <Button busy={!!busy} onClick={() => void test()}>
          Test
        </Button>
      }
    >
      {props => <input {...props} readOnly value={line(placeOf(source))} className={`${fieldClass} bg-muted font-mono text-xs`} />}
    </Field>
  )
}

let nextKey = 1

function Variables({ draft, set }: { draft: Draft; set: (more: Partial<Draft>) => void }) {
  const servers = useQuery({ ...serversQuery, enabled: draft.kind === 'package' })
  const allowed = servers.data?.find(each => each.name === draft.package)?.mcp_server?.env
  const change = (key: number, more: Partial<Draft['env'][number]>) =>
    set({ env: draft.env.map(each => (each.key === key ? { ...each, ...more } : each)) })
  return (
    <div className="space-y-3">
      <p className="text-muted-fg">
        The environment of the program.{' '}
        {allowed ? `It may have: ${line(allowed.join(', ')) || 'none'}.` : 'It may have those that the operator allows.'} What is secret
        comes from a secret.
      </p>
      {draft.env.map((variable, at) => (
        <fieldset key={variable.key} className="grid items-center gap-2 rounded-md border p-3 sm:grid-cols-[10rem_7rem_minmax(0,1fr)_auto]">
          <legend className="sr-only">Variable {at + 1}</legend>
          <input
            aria-label="Name of the variable"
            placeholder="API_TOKEN"
            value={variable.name}
            onChange={event => change(variable.key, { name: event.target.value })}
            className={`${fieldClass} font-mono text-xs`}
          />
          <select
            aria-label="Value or secret"
            value={variable.from}
            onChange={event => change(variable.key, { from: event.target.value as 'value' | 'secret' })}
            className={fieldClass}
          >
            <option value="secret">secret</option>
            <option value="value">value</option>
          </select>
          {variable.from === 'secret' ? (
            <SecretPicker label="Secret" value={variable.secret} onChange={secret => change(variable.key, { secret })} />
          ) : (
            <input
              aria-label="Value, which everybody sees"
              placeholder="everybody sees it"
              value={variable.value}
              onChange={event => change(variable.key, { value: event.target.value })}
              className={fieldClass}
            />
          )}
          <Button
            look="quiet"
            aria-label={`Remove variable ${at + 1}`}
            onClick={() => set({ env: draft.env.filter(each => each.key !== variable.key) })}
          >
            <X aria-hidden className="size-4" />
          </Button>
        </fieldset>
      ))}
      <Button onClick={() => set({ env: [...draft.env, { key: nextKey++, name: '', from: 'secret', value: '', secret: '' }] })}>
        <Plus aria-hidden className="size-4" /> Variable
      </Button>
    </div>
  )
}
