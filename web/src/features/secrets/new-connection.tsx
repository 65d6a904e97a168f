// A connection: the credential of a source, and the one address it is sent to.
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Field, TellBeside, toldOf } from '@/components/field'
import { SpacesField } from '@/components/spaces-field'
import { Button, fieldClass } from '@/components/ui'
import { useSending } from '@/lib/sending'
import { AllowHost } from './allow-host'
import { type ConnectionDraft, connectionOf, emptyConnection, KINDS, missing, NAME } from './model'
import { SecretPicker } from './picker'
import { type Connection, makeConnection } from './queries'
import { ValueField } from './value-field'

type Props = { start?: Partial<ConnectionDraft>; onMade: (connection: Connection) => void; onCancel?: () => void }

export function NewConnection({ start, onMade, onCancel }: Props) {
  const client = useQueryClient()
  const [draft, setDraft] = useState<ConnectionDraft>({ ...emptyConnection, ...start })
  const { error, busy, run, clear } = useSending()
  const set = (more: Partial<ConnectionDraft>) => {
    clear()
    setDraft(old => ({ ...old, ...more }))
  }
  const lacks = missing(draft)
  const isAddress = ['host_not_allowed', 'address_not_allowed', 'url_not_allowed'].includes(error?.code ?? '')
  const isName = error?.code === 'name_taken'
  const send = () =>
    run('it', async () => {
      const made = await makeConnection(connectionOf(draft))
      set({ value: '' })
      await client.invalidateQueries({ queryKey: ['connections'] })
      onMade(made)
    })
  return (
    <form
      aria-label="New connection"
      className="space-y-4"
      onSubmit={event => {
        event.preventDefault()
        void send()
      }}
    >
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Name of the connection" told={error && isName ? toldOf(error) : undefined}>
          {props => (
            <input
              {...props}
              required
              pattern={NAME}
              value={draft.name}
              onChange={event => set({ name: event.target.value })}
              className={fieldClass}
            />
          )}
        </Field>
        <Field label="Kind of credential">
          {props => (
            <select
              {...props}
              value={draft.kind}
              onChange={event => set({ kind: event.target.value as ConnectionDraft['kind'] })}
              className={fieldClass}
            >
              {Object.entries(KINDS)
                .filter(([kind]) => kind !== 'smtp')
                .map(([kind, words]) => (
                  <option key={kind} value={kind}>
                    {words}
                  </option>
                ))}
            </select>
          )}
        </Field>
      </div>
      <Field
        label="Address it is sent to"
        help="The credential goes to the origin of this address, and to no other."
        told={error && isAddress ? toldOf(error) : undefined}
      >
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
      <AllowHost error={error} url={draft.url} />
      {(draft.kind === 'header' || draft.kind === 'basic') && (
        <Field label={draft.kind === 'header' ? 'Name of the header' : 'Name of the user'}>
          {props => (
            <input
              {...props}
              required
              placeholder={draft.kind === 'header' ? 'X-Api-Key' : ''}
              value={draft.account}
              onChange={event => set({ account: event.target.value })}
              className={fieldClass}
            />
          )}
        </Field>
      )}
      {draft.kind === 'oauth' ? <OauthFields draft={draft} set={set} /> : <CredentialFields draft={draft} set={set} />}
      <SpacesField chosen={draft.spaces} onChange={spaces => set({ spaces })} />
      {error && !isAddress && !isName && <TellBeside told={toldOf(error)} />}
      <div className="flex flex-wrap items-center gap-2">
        <Button look="primary" type="submit" busy={!!busy} disabled={!!lacks}>
          {draft.kind === 'oauth' ? 'Make it, then log in' : 'Keep this credential'}
        </Button>
        {onCancel && (
          <Button look="quiet" onClick={onCancel}>
            Cancel
          </Button>
        )}
        {lacks && <span className="text-xs text-muted-fg">{lacks}</span>}
      </div>
    </form>
  )
}

type Part = { draft: ConnectionDraft; set: (more: Partial<ConnectionDraft>) => void }

function CredentialFields({ draft, set }: Part) {
  return (
    <fieldset>
      <legend className="sr-only">Its value</legend>
      <label className="mr-4 inline-flex min-h-9 items-center gap-2">
        <input type="radio" checked={draft.from === 'value'} onChange={() => set({ from: 'value' })} /> type it now
      </label>
      <label className="inline-flex min-h-9 items-center gap-2">
        <input type="radio" checked={draft.from === 'secret'} onChange={() => set({ from: 'secret' })} /> take a secret, and follow its
        rotations
      </label>
      {draft.from === 'value' ? (
        <ValueField
          label={draft.kind === 'basic' ? 'Password' : 'Token'}
          value={draft.value}
          help="It is kept encrypted, and never shown again."
          onChange={value => set({ value })}
        />
      ) : (
        <Field label="Secret">{({ id }) => <SecretPicker id={id} value={draft.secret} onChange={secret => set({ secret })} />}</Field>
      )}
    </fieldset>
  )
}

function OauthFields({ draft, set }: Part) {
  return (
    <details>
      <summary className="cursor-pointer text-muted-fg">Scopes, or a client that you registered by hand</summary>
      <div className="mt-3 space-y-4">
        <Field label="Scopes" help="Words with spaces between them. If it is empty, those that the other side names.">
          {props => (
            <input {...props} value={draft.scopes} onChange={event => set({ scopes: event.target.value })} className={fieldClass} />
          )}
        </Field>
        <Field label="Client id" help="If it is empty, this server registers itself.">
          {props => (
            <input {...props} value={draft.clientId} onChange={event => set({ clientId: event.target.value })} className={fieldClass} />
          )}
        </Field>
        {draft.clientId.trim() && <ValueField label="Secret of the client" value={draft.value} onChange={value => set({ value })} />}
      </div>
    </details>
  )
}
