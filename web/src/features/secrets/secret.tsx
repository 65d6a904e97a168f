// One secret: what uses it, when it was last used, and the ways to replace or delete it.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { Fact, Facts } from '@/components/facts'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Exactly, Foreign, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { deleteSecret, type Secret, usedByQuery } from './queries'
import { SetSecret } from './set-secret'

export function SecretDetail({ secret, onGone }: { secret: Secret; onGone: () => void }) {
  const uses = useQuery(usedByQuery(secret.name))
  const [open, setOpen] = useState<'rotate' | 'delete'>()
  const { say } = useToasts()
  const nameOf = useNames()
  const maySet = useMay().includes('manage_identity')
  const isUsed = (uses.data?.length ?? 1) > 0
  return (
    <div className="px-4 py-5 md:px-6">
      <div className="flex flex-wrap items-center gap-3 text-xs text-muted-fg">
        secret <Copy text={secret.id} />
      </div>
      <h2 className="mt-1 text-lg font-semibold">{secret.name}</h2>
      {secret.description && (
        <p>
          <Foreign text={secret.description} />
        </p>
      )}
      {maySet && (
        <div className="mt-3 flex flex-wrap gap-2">
          <Button look="primary" onClick={() => setOpen('rotate')}>
            Rotate
          </Button>
          <Button
            look="danger"
            disabled={isUsed}
            title={isUsed ? 'While something uses it, it cannot be deleted' : undefined}
            onClick={() => setOpen('delete')}
          >
            Delete
          </Button>
        </div>
      )}
      <Section title="Value">
        <p className="text-muted-fg">Kept encrypted. Nobody can read it, not even whoever set it.</p>
        <Facts>
          <Fact name="Version">{secret.version}</Fact>
          <Fact name={secret.version > 1 ? 'Rotated' : 'Set'}>
            <When at={secret.set_at} /> by {line(nameOf(secret.set_by))}
            <Exactly at={secret.set_at} />
          </Fact>
          <Fact name="Last used">{secret.last_used_at ? <When at={secret.last_used_at} /> : 'never'}</Fact>
        </Facts>
      </Section>
      <Section title="Used by">
        <Asked query={uses} />
        {uses.data?.length === 0 && <p>Nothing. It can be deleted.</p>}
        <ul className="space-y-1">
          {uses.data?.map(use => (
            <li key={`${use.kind}${use.id}`}>
              <span className="inline-block w-24 text-muted-fg">{use.kind}</span>
              {use.kind === 'connection' ? (
                <Link to="/secrets" search={{ connection: use.name }} className="text-primary underline">
                  {use.name}
                </Link>
              ) : use.kind === 'source' ? (
                <Link to="/sources/$source" params={{ source: use.id }} className="text-primary underline">
                  {use.name}
                </Link>
              ) : (
                use.name
              )}
            </li>
          ))}
        </ul>
      </Section>
      <Section title="At the command line">
        <div className="flex flex-col items-start gap-1">
          <Copy text={`countersign secret rotate ${secret.name}`} />
          <Copy text={`countersign secret used-by ${secret.name}`} />
        </div>
      </Section>
      {open === 'rotate' && (
        <SetSecret
          secret={secret}
          onClose={() => setOpen(undefined)}
          onSet={done => {
            setOpen(undefined)
            say(`${done.name} has version ${done.version} now.`)
          }}
        />
      )}
      {open === 'delete' && <DeleteSecret secret={secret} onClose={() => setOpen(undefined)} onGone={onGone} />}
    </div>
  )
}

function DeleteSecret({ secret, onClose, onGone }: { secret: Secret; onClose: () => void; onGone: () => void }) {
  const client = useQueryClient()
  const send = async () => {
    await deleteSecret(secret.name)
    onGone()
    await client.invalidateQueries({ queryKey: ['secrets'] })
  }
  return (
    <FormDialog title={`Delete ${secret.name}`} verb="Delete" look="danger" onClose={onClose} send={send}>
      <p>Its value is gone then, and cannot be restored. Nothing uses it.</p>
      <Copy text={`countersign secret delete ${secret.name}`} />
    </FormDialog>
  )
}
