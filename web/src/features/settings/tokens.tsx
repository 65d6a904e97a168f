// Tokens: who holds one, until when, and what it may do. Their texts are shown once, when they are made.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { KeyRound } from 'lucide-react'
import { useState } from 'react'
import type { Permission } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { Button, Copy, cx, Empty, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { useNow } from '@/lib/clock'
import { counted } from '@/lib/format'
import { meQuery } from '@/lib/me'
import { usersQuery } from '@/lib/users'
import { endOf } from './model'
import { addToken, revokeToken, type Token, tokensQuery } from './queries'
import { ShownOnce } from './shown-once'

/** What a service can be given; `approve` is for people only. */
const SCOPES: readonly (readonly [Permission, string])[] = [
  ['create_session', 'open sessions'],
  ['invoke', 'invoke in sessions of its own'],
  ['read_session', 'read sessions of its own'],
  ['read', 'read everything in the org'],
  ['manage_policy', 'change rules, packages and sources'],
  ['manage_identity', 'change people, tokens and secrets'],
]

type Props = { q: string; onFilter: (q: string) => void; withEnded: boolean; onEnded: (withEnded: boolean) => void }

export function Tokens({ q, onFilter, withEnded, onEnded }: Props) {
  const client = useQueryClient()
  const me = useQuery(meQuery).data
  const mayList = me?.permissions.includes('manage_identity')
  const tokens = useQuery({ ...tokensQuery, enabled: !!mayList })
  const users = useQuery(usersQuery)
  const now = useNow()
  const [isAdding, setAdding] = useState(false)
  const [revoking, setRevoking] = useState<Token>()
  const [made, setMade] = useState<{ name: string; text: string }>()
  const nameOf = (id: string | null | undefined) => users.data?.find(user => user.id === id)?.name ?? id ?? ''
  const fitting = [...(tokens.data ?? [])]
    .reverse()
    .filter(token => `${token.name} ${token.id} ${token.kind} ${nameOf(token.user_id)}`.toLowerCase().includes(q.toLowerCase()))
  const ended = fitting.filter(token => endOf(token, now)).length
  const shown = withEnded ? fitting : fitting.filter(token => !endOf(token, now))
  const done = () => client.invalidateQueries({ queryKey: tokensQuery.queryKey })
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3 md:px-6">
        {mayList !== false && (
          <input
            type="search"
            aria-label="Filter"
            placeholder="Filter"
            value={q}
            onChange={event => onFilter(event.target.value)}
            className={`${fieldClass} max-w-xs`}
          />
        )}
        {ended > 0 && (
          <label className="flex items-center gap-2">
            <input type="checkbox" checked={withEnded} onChange={event => onEnded(event.target.checked)} className="size-4" />
            {`Also ${counted(ended, 'token')} that ended`}
          </label>
        )}
        <span className="flex-1" />
        <Button look="primary" onClick={() => setAdding(true)}>
          <KeyRound aria-hidden className="size-4" /> Create a token
        </Button>
      </div>
      <Asked query={tokens} />
      {mayList === false && (
        <p className="px-4 md:px-6">Which tokens there are is seen with the permission manage_identity. You may create one for yourself.</p>
      )}
      {mayList !== false && tokens.isPending && <Loading />}
      {tokens.data && shown.length === 0 && (
        <Empty title="No token fits">
          <Button onClick={() => onFilter('')}>Show all</Button>
        </Empty>
      )}
      <ul className="divide-y border-t empty:hidden">
        {shown.map(token => {
          const end = endOf(token, now)
          return (
            <li key={token.id} className="grid gap-x-4 gap-y-1 px-4 py-3 sm:grid-cols-[minmax(0,1fr)_auto] md:px-6">
              <div className="min-w-0">
                <p className="flex flex-wrap items-baseline gap-x-2">
                  <Link to="/settings" search={{ tab: 'tokens', q: token.id, ended: end ? true : undefined }} className="hover:underline">
                    <Foreign text={token.name} className={cx('font-medium', !!end && 'text-muted-fg line-through')} />
                  </Link>
                  <span className="rounded bg-muted px-1.5 text-xs">{token.kind}</span>
                  {end && <span className="text-xs text-danger">{end}</span>}
                </p>
                <p className="text-xs text-muted-fg">
                  {token.user_id && <Foreign text={`${nameOf(token.user_id)} · `} />}
                  {token.made_by_id && <Foreign text={`made by ${nameOf(token.made_by_id)} · `} />}
                  {token.session_id && (
                    <>
                      <Link to="/invocations" search={{ session: token.session_id }} className="underline">
                        calls of its session
                      </Link>{' '}
                      ·{' '}
                    </>
                  )}
                  {token.scopes.length > 0 && `${token.scopes.join(', ')} · `}
                  {token.device && <Foreign text={`${token.device.name} (${token.device.class}) · `} />}
                  made <When at={token.created_at} />
                  {token.revoked_at ? (
                    <>
                      {' '}
                      · revoked <When at={token.revoked_at} />
                    </>
                  ) : token.expires_at ? (
                    <>
                      {' '}
                      · {end === 'expired' ? 'expired' : 'expires'} <When at={token.expires_at} />
                    </>
                  ) : (
                    ' · does not expire'
                  )}
                </p>
                <Copy text={token.id} />
              </div>
              {!end && (
                <Button
                  look="quiet"
                  className="justify-self-start sm:self-start"
                  aria-label={`Revoke ${token.name}`}
                  onClick={() => setRevoking(token)}
                >
                  Revoke
                </Button>
              )}
            </li>
          )
        })}
      </ul>
      {isAdding && (
        <Add
          me={me?.principal.startsWith('user:') ? me.principal.slice('user:'.length) : undefined}
          mine={me?.permissions ?? []}
          onClose={() => setAdding(false)}
          onMade={async (name, text) => {
            setAdding(false)
            setMade({ name, text })
            await done()
          }}
        />
      )}
      {revoking && (
        <FormDialog
          title={`Revoke ${revoking.name}`}
          verb="Revoke"
          look="danger"
          onClose={() => setRevoking(undefined)}
          send={async () => {
            await revokeToken(revoking.id)
            setRevoking(undefined)
            await done()
          }}
        >
          <p>It stops working at once, and for good. Whoever uses it needs another one.</p>
          <Copy text={`countersign token revoke ${revoking.id}`} />
        </FormDialog>
      )}
      {made && (
        <ShownOnce title={`The token ${made.name}`} text={made.text} onClose={() => setMade(undefined)}>
          <p>Whoever has it acts with it. On the command line:</p>
          <Copy text={`countersign login --url ${location.origin}`} />
        </ShownOnce>
      )}
    </>
  )
}

function Add({
  me,
  mine,
  onClose,
  onMade,
}: {
  me: string | undefined
  mine: readonly Permission[]
  onClose: () => void
  onMade: (name: string, text: string) => Promise<void>
}) {
  const [name, setName] = useState('')
  const [isService, setService] = useState(false)
  const [scopes, setScopes] = useState<ReadonlySet<Permission>>(new Set(['create_session', 'invoke']))
  const [days, setDays] = useState('90')
  const mayGive = SCOPES.filter(([scope]) => mine.includes(scope))
  const chosen = mayGive.map(([scope]) => scope).filter(scope => scopes.has(scope))
  const mayMakeServices = mine.includes('manage_identity')
  const command = [
    `countersign token create ${name.trim() || 'NAME'}`,
    ...(isService ? chosen.map(scope => `--scope ${scope}`) : []),
    ...(days ? [`--expires-in-days ${days}`] : []),
  ].join(' ')
  return (
    <FormDialog
      title="Create a token"
      verb="Create"
      disabled={name.trim() === '' || (isService && chosen.length === 0)}
      onClose={onClose}
      send={async () => {
        const { token } = await addToken({
          name: name.trim(),
          user_id: isService ? undefined : me,
          scopes: isService ? chosen : [],
          expires_in_days: days ? Number(days) : undefined,
        })
        await onMade(name.trim(), token)
      }}
    >
      <label className="block">
        What it is for
        <input
          value={name}
          maxLength={64}
          placeholder="laptop"
          onChange={event => setName(event.target.value)}
          className={`${fieldClass} mt-1`}
        />
      </label>
      <fieldset>
        <legend>Who acts with it</legend>
        <label className="mt-1 flex items-center gap-2">
          <input type="radio" name="who" checked={!isService} onChange={() => setService(false)} className="size-4" /> you, with your role
        </label>
        <label className={cx('mt-1 flex items-center gap-2', !mayMakeServices && 'text-muted-fg')}>
          <input
            type="radio"
            name="who"
            checked={isService}
            disabled={!mayMakeServices}
            onChange={() => setService(true)}
            className="size-4"
          />
          a service, with what you give it{!mayMakeServices && ' (needs the permission manage_identity)'}
        </label>
      </fieldset>
      {isService && (
        <fieldset className="rounded-md border p-3">
          <legend className="px-1 text-xs text-muted-fg">It may</legend>
          {mayGive.map(([scope, words]) => (
            <label key={scope} className="flex items-center gap-2 py-0.5">
              <input
                type="checkbox"
                className="size-4"
                checked={scopes.has(scope)}
                onChange={() =>
                  setScopes(old => {
                    const next = new Set(old)
                    if (!next.delete(scope)) next.add(scope)
                    return next
                  })
                }
              />
              {words} <code className="text-xs text-muted-fg">{scope}</code>
            </label>
          ))}
          <p className="mt-1 text-xs text-muted-fg">No service approves calls: that is for people.</p>
        </fieldset>
      )}
      <label className="block">
        It works for
        <select value={days} onChange={event => setDays(event.target.value)} className={`${fieldClass} mt-1`}>
          {['1', '7', '30', '90', '365'].map(each => (
            <option key={each} value={each}>
              {counted(Number(each), 'day')}
            </option>
          ))}
          <option value="">ever: it does not expire</option>
        </select>
      </label>
      <Copy text={command} className="max-w-full" />
    </FormDialog>
  )
}
