// A person logs in elsewhere for a connection, in a tab of its own; this page notices when they are back.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { ExternalLink, LoaderCircle } from 'lucide-react'
import { useEffect, useState } from 'react'
import type { Schemas } from '@/api/types'
import { TellBeside, toldOf } from '@/components/field'
import { Button, buttonClass, Copy, When } from '@/components/ui'
import { useSending } from '@/lib/sending'
import { safeUrl } from './model'
import { type Connection, loginQuery, startLogin } from './queries'

type Props = { connection: Connection; onDone?: () => void }

export function Login({ connection, onDone }: Props) {
  const client = useQueryClient()
  const [started, setStarted] = useState<Schemas['StartedLoginResponse']>()
  const { error, busy, run } = useSending()
  const login = useQuery(loginQuery(connection.name, !!started))
  const status = started ? (login.data?.status ?? 'open') : undefined
  // The outside system is a browser tab that says nothing to this one: the server is asked.
  useEffect(() => {
    if (status !== 'done') return
    void client.invalidateQueries({ queryKey: ['connections'] })
    onDone?.()
  }, [status, client, onDone])
  const start = () =>
    run('it', async () => {
      client.removeQueries({ queryKey: ['login', connection.name] })
      setStarted(await startLogin(connection.name))
    })
  const url = started && safeUrl(started.url)
  return (
    <div className="space-y-2">
      {status === 'open' && url && (
        <div className="rounded-md bg-muted p-3">
          <p>
            <a href={url.href} target="_blank" rel="noreferrer" className={buttonClass('primary')}>
              <ExternalLink aria-hidden className="size-4" /> Log in at {url.host}
            </a>
          </p>
          <p className="mt-2 flex flex-wrap items-center gap-x-2 text-xs" aria-live="polite">
            <LoaderCircle aria-hidden className="size-3.5 motion-safe:animate-spin" />
            <span>Waiting for you to come back. It ends {started && <When at={started.expires_at} />}.</span>
            <Copy text={url.href} label="copy the address" />
          </p>
          <p className="mt-1 text-xs text-muted-fg">The connection acts as the account with which you log in there.</p>
        </div>
      )}
      {started && !url && <TellBeside told={{ isGood: false, text: 'The server gave an address that is none to open.' }} />}
      {status === 'done' && <TellBeside told={{ isGood: true, text: 'Logged in. The connection is ready.' }} />}
      {status === 'failed' && <TellBeside told={{ isGood: false, text: login.data?.problem ?? 'The login failed.' }} />}
      {status === 'expired' && <TellBeside told={{ isGood: null, text: 'Nobody came back in time.' }} />}
      {error && <TellBeside told={toldOf(error)} />}
      {status !== 'open' && status !== 'done' && (
        <Button look={connection.state === 'ready' ? 'plain' : 'primary'} busy={!!busy} onClick={() => void start()}>
          {connection.state === 'ready' ? 'Log in again' : 'Log in'}
        </Button>
      )}
    </div>
  )
}
