// One connection: whether it works, what uses it, and the ways to log in, try and remove it.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { Fact, Facts } from '@/components/facts'
import { TellBeside, type Told, toldOf } from '@/components/field'
import { FormDialog } from '@/components/form-dialog'
import { useSpaceNames } from '@/components/spaces-field'
import { Button, Copy, Exactly, Section, When } from '@/components/ui'
import { sourcesQuery } from '@/features/sources/queries'
import { line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { Login } from './login'
import { KINDS, STATES, testedConnection } from './model'
import { type Connection, removeConnection, testConnection } from './queries'

export function ConnectionDetail({ connection, onGone }: { connection: Connection; onGone: () => void }) {
  const sources = useQuery(sourcesQuery)
  const uses = sources.data?.filter(source => source.connection?.id === connection.id)
  const [told, setTold] = useState<Told>()
  const [isRemoving, setRemoving] = useState(false)
  const { error, busy, run } = useSending()
  const maySet = useMay().includes('manage_identity') && !connection.removed_at
  const nameOf = useNames()
  const spaces = useSpaceNames(connection.spaces)
  const test = () => {
    setTold(undefined)
    return run('it', async () => setTold(testedConnection(await testConnection(connection.name))))
  }
  const isUsed = (uses?.length ?? 1) > 0
  return (
    <div className="px-4 py-5 md:px-6">
      <div className="flex flex-wrap items-center gap-3 text-xs text-muted-fg">
        connection <Copy text={connection.id} />
      </div>
      <h2 className="mt-1 text-lg font-semibold">{connection.name}</h2>
      <p>
        <b className={STATES[connection.state].tone}>{STATES[connection.state].word}</b>
        {connection.why && <span className="foreign"> · {line(connection.why)}</span>}
        {connection.mended_by && <span className="block text-muted-fg">Who mends it: {connection.mended_by}.</span>}
      </p>
      {maySet && (
        <div className="mt-3 space-y-3">
          {connection.kind === 'oauth' && <Login connection={connection} />}
          <div className="flex flex-wrap items-start gap-2">
            <Button busy={!!busy} disabled={connection.state !== 'ready'} onClick={() => void test()}>
              Test
            </Button>
            <Button
              look="danger"
              disabled={isUsed}
              title={isUsed ? 'A source uses it: give the source another one first' : undefined}
              onClick={() => setRemoving(true)}
            >
              Remove
            </Button>
          </div>
          {told && <TellBeside told={told} />}
          {error && <TellBeside told={toldOf(error)} />}
        </div>
      )}
      <Section title="Credential">
        <Facts>
          <Fact name="Kind">{KINDS[connection.kind]}</Fact>
          <Fact name="Sent to">
            <span className="font-mono text-[13px]">{line(connection.url)}</span>, and to no other origin
          </Fact>
          {connection.account && <Fact name={connection.kind === 'basic' ? 'User' : 'Header'}>{line(connection.account)}</Fact>}
          {connection.secret && (
            <Fact name="Value">
              the secret{' '}
              <Link to="/secrets" search={{ secret: connection.secret }} className="text-primary underline">
                {connection.secret}
              </Link>
            </Fact>
          )}
          {!connection.secret && connection.kind !== 'oauth' && (
            <Fact name="Value">its own. For another value, make another connection, or one that takes a secret.</Fact>
          )}
          {connection.issuer && <Fact name="Issued by">{line(connection.issuer)}</Fact>}
          {connection.scopes && <Fact name="Scopes">{line(connection.scopes.join(' '))}</Fact>}
          <Fact name="For">{line(spaces)}</Fact>
          <Fact name="Last used">{connection.last_used_at ? <When at={connection.last_used_at} /> : 'never'}</Fact>
          <Fact name="Made">
            <When at={connection.made_at} /> by {line(nameOf(connection.made_by))}
            <Exactly at={connection.made_at} />
          </Fact>
          {connection.removed_at && (
            <Fact name="Removed">
              <When at={connection.removed_at} />
            </Fact>
          )}
          {connection.login_at && (
            <Fact name="Last login">
              <When at={connection.login_at} /> {connection.login_by && `by ${line(nameOf(connection.login_by))}`}
            </Fact>
          )}
        </Facts>
      </Section>
      <Section title="Used by">
        {uses?.length === 0 && <p>No source.{!connection.removed_at && ' It can be removed.'}</p>}
        {uses?.map(source => (
          <Link key={source.id} to="/sources/$source" params={{ source: source.id }} className="mr-3 text-primary underline">
            {source.id}
          </Link>
        ))}
      </Section>
      <Section title="At the command line">
        <div className="flex flex-col items-start gap-1">
          <Copy text={`countersign connection show ${connection.name}`} />
          <Copy text={`countersign connection test ${connection.name}`} />
          {connection.kind === 'oauth' && <Copy text={`countersign connection login ${connection.name}`} />}
        </div>
      </Section>
      {isRemoving && <RemoveConnection connection={connection} onClose={() => setRemoving(false)} onGone={onGone} />}
    </div>
  )
}

function RemoveConnection({ connection, onClose, onGone }: { connection: Connection; onClose: () => void; onGone: () => void }) {
  const client = useQueryClient()
  const send = async () => {
    await removeConnection(connection.name)
    onGone()
    await client.invalidateQueries({ queryKey: ['connections'] })
  }
  return (
    <FormDialog title={`Remove ${connection.name}`} verb="Remove" look="danger" onClose={onClose} send={send}>
      <p>
        Its credential is forgotten at once
        {connection.kind === 'oauth' ? ', and its tokens are revoked where they came from, if that is possible' : ''}. The receipts of its
        calls still name it.
      </p>
      <Copy text={`countersign connection remove ${connection.name}`} />
    </FormDialog>
  )
}
