// A new secret, or another value for one.
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Field } from '@/components/field'
import { Button, Failed, fieldClass } from '@/components/ui'
import { useSending } from '@/lib/sending'
import { NAME } from './model'
import { type Secret, setSecret } from './queries'
import { ValueField } from './value-field'

type Props = { secret?: Secret; onClose: () => void; onSet: (secret: Secret) => void }

export function SetSecret({ secret, onClose, onSet }: Props) {
  const client = useQueryClient()
  const [name, setName] = useState(secret?.name ?? '')
  const [value, setValue] = useState('')
  const [description, setDescription] = useState(secret?.description ?? '')
  const { error, busy, run } = useSending()
  const send = () =>
    run('it', async () => {
      // The version that was seen travels along: what somebody else has just set is not overwritten.
      const done = await setSecret(name.trim(), { value, description: description.trim() || undefined, version: secret?.version })
      setValue('')
      await client.invalidateQueries({ queryKey: ['secrets'] })
      onSet(done)
    })
  return (
    <Dialog title={secret ? `Rotate ${secret.name}` : 'New secret'} onClose={onClose}>
      <form
        className="mt-3 space-y-4"
        onSubmit={event => {
          event.preventDefault()
          // The form around the picker that opened this one is not sent with it.
          event.stopPropagation()
          void send()
        }}
      >
        {!secret && (
          <Field label="Name" help="Letters, digits, dots, _ and -. Whatever uses it refers to it by this name.">
            {props => (
              <input
                {...props}
                autoFocus
                required
                pattern={NAME}
                value={name}
                onChange={event => setName(event.target.value)}
                className={fieldClass}
              />
            )}
          </Field>
        )}
        <ValueField
          label={secret ? 'New value' : 'Value'}
          value={value}
          help="It is kept encrypted, and never shown again, to anybody."
          onChange={setValue}
        />
        <Field label="What it is for">
          {props => (
            <input
              {...props}
              value={description}
              placeholder="optional"
              onChange={event => setDescription(event.target.value)}
              className={fieldClass}
            />
          )}
        </Field>
        {secret && <p className="rounded-md bg-muted p-3">Calls use the new value from the next one on. The old value is gone.</p>}
        {error && <Failed error={error} />}
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" busy={!!busy} disabled={!value || !name.trim()}>
            {secret ? 'Rotate' : 'Keep it'}
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}
