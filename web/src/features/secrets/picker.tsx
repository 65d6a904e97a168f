// One of the secrets there are, by name, or a new one.
import { useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { createPortal } from 'react-dom'
import { Button, fieldClass } from '@/components/ui'
import { useMay } from '@/lib/me'
import { secretsQuery } from './queries'
import { SetSecret } from './set-secret'

type Props = { id?: string; label?: string; value: string; onChange: (secret: string) => void }

export function SecretPicker({ id, label, value, onChange }: Props) {
  const secrets = useQuery(secretsQuery)
  const [isNew, setNew] = useState(false)
  const maySet = useMay().includes('manage_identity')
  return (
    <span className="flex gap-2">
      <select id={id} aria-label={label} value={value} onChange={event => onChange(event.target.value)} className={fieldClass}>
        <option value="">{secrets.data?.length === 0 ? 'no secret yet' : 'choose a secret'}</option>
        {secrets.data?.map(secret => (
          <option key={secret.id}>{secret.name}</option>
        ))}
      </select>
      {maySet && (
        <Button aria-label="New secret" onClick={() => setNew(true)}>
          <Plus aria-hidden className="size-4" /> New
        </Button>
      )}
      {/* A form cannot stand in the form that the picker stands in. */}
      {isNew &&
        createPortal(
          <SetSecret
            onClose={() => setNew(false)}
            onSet={secret => {
              setNew(false)
              onChange(secret.name)
            }}
          />,
          document.body,
        )}
    </span>
  )
}
