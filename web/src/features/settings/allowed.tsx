// What the sources of every org may use: hosts, networks and commands. Operators change it while the servers run.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import type { ApiError } from '@/api/client'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Empty, Failed, Foreign, fieldClass, Loading, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { words } from '../sources/model'
import { type AllowedList, addAllowed, allowedQuery, type Allowed as Entry, removeAllowed } from './queries'

const LISTS: readonly { list: AllowedList; title: string; about: string; label: string; example: string; noun: string }[] = [
  {
    list: 'hosts',
    title: 'Hosts',
    about: 'Where MCP servers, connections and channels may be.',
    label: 'Host',
    example: 'mcp.example.com',
    noun: 'host',
  },
  {
    list: 'networks',
    title: 'Networks',
    about: 'Addresses that are not public and may be reached all the same.',
    label: 'Network',
    example: '127.0.0.1/32',
    noun: 'network',
  },
  {
    list: 'commands',
    title: 'Commands',
    about: 'Programs that may be MCP servers, in the jail, word by word.',
    label: 'Command',
    example: 'node /opt/mcp/index.js',
    noun: 'command',
  },
]

export function Allowed() {
  const hosts = useQuery(allowedQuery('hosts'))
  if (hosts.isPending) return <Loading />
  const error = hosts.error as ApiError | null
  if (error?.code === 'forbidden')
    return (
      <Empty title="Operators alone see and change this">
        <p>The operators are the owners of the first org of this server.</p>
      </Empty>
    )
  if (error) return <Failed error={error} retry={() => void hosts.refetch()} />
  return (
    <div className="px-4 py-4 md:px-6">
      <p className="text-muted-fg">
        This holds for the sources of every org, on every server of the database, at once. Each change is signed into the audit log.
      </p>
      {LISTS.map(one => (
        <List key={one.list} {...one} />
      ))}
    </div>
  )
}

function List({ list, title, about, label, example, noun }: (typeof LISTS)[number]) {
  const client = useQueryClient()
  const read = useQuery(allowedQuery(list))
  const { say } = useToasts()
  const { error, busy, run } = useSending()
  const [text, setText] = useState('')
  const [removing, setRemoving] = useState<Entry>()
  const again = () => client.invalidateQueries({ queryKey: ['allowed'] })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void run('it', async () => {
      await addAllowed(list, list === 'commands' ? { command: { command: words(text) } } : { entry: text.trim() })
      setText('')
      await again()
      say('Allowed, and signed into the audit log.')
    })
  }
  return (
    <Section title={title} aside={<Copy text={`countersign allow ${noun} list`} />}>
      <p className="text-muted-fg">{about}</p>
      <Asked query={read} />
      {read.data?.length === 0 && <p className="text-muted-fg">None.</p>}
      <ul className="my-2 divide-y rounded-md border bg-panel" aria-label={title}>
        {read.data?.map(entry => (
          <Row key={entry.entry} entry={entry} onRemove={() => setRemoving(entry)} />
        ))}
      </ul>
      <form onSubmit={submit} className="flex flex-wrap items-end gap-2">
        <label className="block flex-1">
          <span className="font-medium">{label}</span>
          <input value={text} placeholder={example} onChange={event => setText(event.target.value)} className={fieldClass} />
        </label>
        <Button type="submit" busy={!!busy} disabled={!text.trim()}>
          Allow this {noun}
        </Button>
      </form>
      {list === 'commands' && (
        <p className="mt-1 text-xs text-muted-fg">
          It sees no folder and reaches no host. For more, and to install what it needs:{' '}
          <Copy text="countersign source add NAME -- COMMAND" />
        </p>
      )}
      {error && <Failed error={error} />}
      {removing && (
        <FormDialog
          title={`Allow it no longer`}
          verb="Remove"
          look="danger"
          onClose={() => setRemoving(undefined)}
          send={async () => {
            await removeAllowed(list, removing.entry)
            setRemoving(undefined)
            await again()
          }}
        >
          <p>
            <Foreign text={shown(removing)} className="font-mono" />
          </p>
          <p>
            {list === 'commands'
              ? 'Its programs end with their last calls, and are not started again.'
              : 'What is there can no longer be reached, by any source.'}
          </p>
          {removing.used_by.length > 0 && <p className="text-warn">! It is run for {line(removing.used_by.join(', '))}.</p>}
          <Copy text={`countersign allow ${noun} remove '${removing.entry}'`} />
        </FormDialog>
      )}
    </Section>
  )
}

const shown = (entry: Entry) => entry.command?.command.join(' ') ?? entry.entry

function Row({ entry, onRemove }: { entry: Entry; onRemove: () => void }) {
  const nameOf = useNames()
  const command = entry.command
  return (
    <li className="flex flex-wrap items-center justify-between gap-2 px-3 py-2">
      <div>
        <Foreign text={shown(entry)} className="font-mono text-[13px]" />
        {command && (
          <p className="text-xs text-muted-fg">
            {command.hosts?.length ? `may reach ${line(command.hosts.join(', '))}` : 'reaches no host'}
            {command.readable?.length ? ` · sees ${line(command.readable.join(', '))}` : ''}
            {command.workspace ? ' · sees the workspace, read-only' : ''}
            {entry.used_by.length ? ` · runs for ${line(entry.used_by.join(', '))}` : ''}
          </p>
        )}
        <p className="text-xs text-muted-fg">
          {entry.fixed ? (
            'fixed in the settings of the server'
          ) : (
            <>
              by {line(nameOf(entry.set_by ?? ''))} {entry.set_at && <When at={entry.set_at} />}
            </>
          )}
        </p>
      </div>
      {!entry.fixed && (
        <Button look="danger" onClick={onRemove}>
          Remove {shown(entry)}
        </Button>
      )}
    </li>
  )
}
