// Secrets and connections: the credentials with which calls act elsewhere. Names, uses and states; never a value.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { ArrowLeft, Plus } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import type { ApiError } from '@/api/client'
import { Dialog } from '@/components/dialog'
import { Button, Copy, cx, Empty, Failed, fieldClass, Loading, When } from '@/components/ui'
import { useOpenFirst } from '@/lib/first'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useRefresh } from '@/lib/refresh'
import { rank } from '@/lib/search'
import { ConnectionDetail } from './connection'
import { STATES } from './model'
import { NewConnection } from './new-connection'
import { type Connection, connectionQuery, connectionsQuery, type Secret, secretsQuery, usedByQuery } from './queries'
import { SecretDetail } from './secret'
import { SetSecret } from './set-secret'

const route = getRouteApi('/secrets')

export function Secrets() {
  const { secret: secretName, connection: connectionName, q = '' } = route.useSearch()
  const navigate = useNavigate({ from: '/secrets' })
  const secrets = useQuery(secretsQuery)
  const connections = useQuery(connectionsQuery)
  const [open, setOpen] = useState<'secret' | 'connection'>()
  const maySet = useMay().includes('manage_identity')
  useRefresh(['secret.', 'connection.', 'source.'], ['secrets', 'connections', 'used-by', 'sources'])
  const show = (chosen: { secret?: string; connection?: string }) =>
    void navigate({ search: old => ({ ...old, secret: undefined, connection: undefined, ...chosen }) })
  const back = () => show({})

  const secret = secrets.data?.find(each => each.name === secretName || each.id === secretName)
  const listed = connections.data?.find(each => each.name === connectionName || each.id === connectionName)
  const unlisted = useQuery({ ...connectionQuery(connectionName ?? ''), enabled: !!connectionName && connections.isSuccess && !listed })
  const connection = listed ?? (connectionName ? unlisted.data : undefined)
  const isOpen = !!secretName || !!connectionName
  const error = (secrets.error ?? connections.error) as ApiError | null
  const isEmpty = secrets.data?.length === 0 && connections.data?.length === 0
  const fits = (each: { name: string }) => rank(each.name, q) > 0
  const firstConnection = connections.data?.find(fits)
  const first = secrets.data && (firstConnection ?? secrets.data.find(fits))?.name
  useOpenFirst(
    isOpen,
    first,
    name => void navigate({ search: old => ({ ...old, [firstConnection ? 'connection' : 'secret']: name }), replace: true }),
  )
  return (
    <div className="flex h-full min-h-0">
      <section
        aria-label="Secrets and connections"
        className={cx('flex w-full flex-col border-r lg:w-80 lg:shrink-0 xl:w-[25rem]', isOpen && 'max-lg:hidden')}
      >
        <header className="border-b p-3">
          <div className="flex flex-wrap items-baseline justify-between gap-x-2">
            <h1 className="text-lg font-semibold">Secrets &amp; connections</h1>
            <Copy text="countersign secret list" />
          </div>
          <input
            type="search"
            aria-label="Filter"
            placeholder="Filter"
            value={q}
            onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
            className={`${fieldClass} mt-2`}
          />
        </header>
        <div className="min-h-0 flex-1 overflow-auto">
          {error && (
            <Failed
              error={error}
              retry={() => {
                void secrets.refetch()
                void connections.refetch()
              }}
            />
          )}
          {(secrets.isPending || connections.isPending) && <Loading />}
          {connections.data && (
            <Group title="Connections" add={maySet && 'New connection'} onAdd={() => setOpen('connection')}>
              {connections.data.filter(fits).map(each => (
                <ConnectionRow
                  key={each.id}
                  connection={each}
                  isChosen={each === connection}
                  onClick={() => show({ connection: each.name })}
                />
              ))}
              {connections.data.length === 0 && (
                <p className="px-3 py-3 text-muted-fg">None. A source that wants a credential takes one.</p>
              )}
            </Group>
          )}
          {secrets.data && (
            <Group title="Secrets" add={maySet && 'New secret'} onAdd={() => setOpen('secret')}>
              {secrets.data.filter(fits).map(each => (
                <SecretRow key={each.id} secret={each} isChosen={each === secret} onClick={() => show({ secret: each.name })} />
              ))}
              {secrets.data.length === 0 && (
                <p className="px-3 py-3 text-muted-fg">None. A program gets them as variables, a connection as its value.</p>
              )}
            </Group>
          )}
        </div>
      </section>
      <section aria-label="The selected one" className={cx('min-w-0 flex-1 overflow-auto', !isOpen && 'max-lg:hidden')}>
        {isOpen && (
          <h1 className="mx-4 mt-4 lg:hidden">
            <button type="button" className="inline-flex items-center gap-1 text-muted-fg" onClick={back}>
              <ArrowLeft aria-hidden className="size-4" /> Secrets &amp; connections
            </button>
          </h1>
        )}
        {secret ? (
          <SecretDetail key={secret.id} secret={secret} onGone={back} />
        ) : connection ? (
          <ConnectionDetail key={connection.id} connection={connection} onGone={back} />
        ) : secretName && secrets.isSuccess ? (
          <Empty title="There is no secret of this name">It was deleted, or never set.</Empty>
        ) : connectionName && unlisted.isError ? (
          <Empty title="There is no such connection" />
        ) : isEmpty ? (
          <Empty title="No credentials yet">
            <p className="mb-3">With a secret or a connection calls act elsewhere, and no agent sees its value.</p>
            {maySet ? (
              <Button look="primary" onClick={() => setOpen('secret')}>
                New secret
              </Button>
            ) : (
              <p>Somebody with the permission manage_identity sets them.</p>
            )}
          </Empty>
        ) : (
          <Empty title="Choose one">What uses it, when it was used last, and the ways to replace and remove it.</Empty>
        )}
      </section>
      {open === 'secret' && (
        <SetSecret
          onClose={() => setOpen(undefined)}
          onSet={made => {
            setOpen(undefined)
            show({ secret: made.name })
          }}
        />
      )}
      {open === 'connection' && (
        <Dialog wide title="New connection" onClose={() => setOpen(undefined)}>
          <div className="h-3" />
          <NewConnection
            onCancel={() => setOpen(undefined)}
            onMade={made => {
              setOpen(undefined)
              show({ connection: made.name })
            }}
          />
        </Dialog>
      )}
    </div>
  )
}

function Group({ title, add, onAdd, children }: { title: string; add: string | false; onAdd: () => void; children: ReactNode }) {
  return (
    <div>
      <h2 className="sticky top-0 flex items-center justify-between border-b bg-muted px-3 py-1 text-xs font-semibold text-muted-fg">
        {title}
        {add && (
          <button
            type="button"
            aria-label={add}
            className="inline-flex min-h-6 items-center gap-1 rounded px-1 hover:text-fg"
            onClick={onAdd}
          >
            <Plus aria-hidden className="size-3.5" /> New
          </button>
        )}
      </h2>
      {children}
    </div>
  )
}

type RowProps = { isChosen: boolean; onClick: () => void; children: ReactNode }

function Row({ isChosen, onClick, children }: RowProps) {
  return (
    <button
      type="button"
      aria-current={isChosen ? 'true' : undefined}
      onClick={onClick}
      className={cx(
        'block w-full border-b border-l-2 px-3 py-2 text-left',
        isChosen ? 'border-l-primary bg-accent' : 'border-l-transparent hover:bg-muted',
      )}
    >
      {children}
    </button>
  )
}

function ConnectionRow({ connection, ...rest }: { connection: Connection; isChosen: boolean; onClick: () => void }) {
  const state = STATES[connection.state]
  return (
    <Row {...rest}>
      <span className="flex items-baseline justify-between gap-2">
        <span className="truncate font-medium">{connection.name}</span>
        <span className={cx('shrink-0 text-xs', connection.why && connection.state === 'ready' ? 'text-warn' : state.tone)}>
          {connection.why && connection.state === 'ready' ? 'needs a look' : state.word}
        </span>
      </span>
      <span className="flex items-baseline justify-between gap-2 text-xs text-muted-fg">
        <span className="foreign truncate">
          {connection.kind} · {connection.url}
        </span>
        <Used at={connection.last_used_at} />
      </span>
    </Row>
  )
}

function SecretRow({ secret, ...rest }: { secret: Secret; isChosen: boolean; onClick: () => void }) {
  const uses = useQuery({ ...usedByQuery(secret.name), staleTime: 30_000 })
  return (
    <Row {...rest}>
      <span className="flex items-baseline justify-between gap-2">
        <span className="truncate font-medium">{secret.name}</span>
        <span className="shrink-0 text-xs text-muted-fg">
          {uses.data && (uses.data.length === 0 ? 'nothing uses it' : `${counted(uses.data.length, 'use')}`)}
        </span>
      </span>
      <span className="flex items-baseline justify-between gap-2 text-xs text-muted-fg">
        <span>
          version {secret.version} · set <When at={secret.set_at} />
        </span>
        <Used at={secret.last_used_at} />
      </span>
    </Row>
  )
}

function Used({ at }: { at: string | null | undefined }) {
  return (
    <span className="shrink-0">
      {at ? (
        <>
          used <When at={at} />
        </>
      ) : (
        'never used'
      )}
    </span>
  )
}
