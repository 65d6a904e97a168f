// Which credential the requests to a source carry: none, a connection there is, or one that is made here. Beside it, whether it is taken.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Field, type Told, toldOf } from '@/components/field'
import { Button, fieldClass } from '@/components/ui'
import { Login } from '@/features/secrets/login'
import { STATES, safeUrl, testedConnection } from '@/features/secrets/model'
import { NewConnection } from '@/features/secrets/new-connection'
import { connectionsQuery, testConnection } from '@/features/secrets/queries'
import { useSending } from '@/lib/sending'
import type { Draft } from './model'
import type { Preset } from './presets'

const NEW = 'new connection'

type Props = {
  draft: Draft
  preset?: Preset
  told?: Told
  mayMake: boolean
  isMaking: boolean
  /** A connection by its name, or none; or that a new one is being made, until which the source cannot be added. */
  onChoose: (connection: string, isMaking: boolean) => void
}

export function Credential({ draft, preset, told, mayMake, isMaking, onChoose }: Props) {
  const connections = useQuery(connectionsQuery)
  const [tested, setTested] = useState<Told>()
  const { error, busy, run } = useSending()
  const chosen = connections.data?.find(each => each.name === draft.connection)
  const origin = safeUrl(draft.url)?.origin
  const pick = (value: string) => {
    setTested(undefined)
    onChoose(value === NEW ? '' : value, value === NEW)
  }
  const test = () => {
    setTested(undefined)
    return run('it', async () => setTested(testedConnection(await testConnection(draft.connection))))
  }
  const wants = { none: undefined, bearer: 'It wants a token.', oauth: 'It wants a login with OAuth.' }[preset?.credential ?? 'none']
  return (
    <>
      <Field
        label="Connection"
        help={[wants, 'Its credential goes with every request to this source, and nowhere else.'].filter(Boolean).join(' ')}
        told={tested ?? (error ? toldOf(error) : told)}
        aside={
          chosen && (
            <Button busy={!!busy} disabled={chosen.state !== 'ready'} onClick={() => void test()}>
              Test
            </Button>
          )
        }
      >
        {props => (
          <select {...props} value={isMaking ? NEW : draft.connection} onChange={event => pick(event.target.value)} className={fieldClass}>
            <option value="">no credential</option>
            {connections.data?.map(each => (
              <option key={each.id} value={each.name}>
                {each.name} · {STATES[each.state].word}
                {origin && safeUrl(each.url)?.origin !== origin ? ` · for ${safeUrl(each.url)?.host ?? each.url}` : ''}
              </option>
            ))}
            {mayMake && <option value={NEW}>new connection…</option>}
          </select>
        )}
      </Field>
      {isMaking && (
        <div className="rounded-md border bg-panel p-4">
          <NewConnection
            start={{
              name: draft.name,
              url: draft.url,
              kind: preset?.credential === 'oauth' ? 'oauth' : 'bearer',
              spaces: draft.spaces,
            }}
            onCancel={() => pick('')}
            onMade={made => pick(made.name)}
          />
        </div>
      )}
      {chosen?.kind === 'oauth' && chosen.state !== 'ready' && mayMake && <Login connection={chosen} />}
    </>
  )
}
