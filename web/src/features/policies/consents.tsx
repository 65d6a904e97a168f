// Consents: what people allow to be done with their data, in their own name.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked, More } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Empty, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { meQuery } from '@/lib/me'
import { spacesQuery } from '@/lib/spaces'
import { usersQuery } from '@/lib/users'
import { quoted } from './model'
import { Labelled, Select, SpaceSelect, TabHead } from './parts'
import { changed, consentsQuery, giveConsent, withdrawConsent } from './queries'

const route = getRouteApi('/policies/consents')
const STATES: Record<Schemas['ConsentState'], { word: string; tone: string }> = {
  live: { word: '✓ live', tone: 'text-ok' },
  expired: { word: '◌ expired', tone: 'text-muted-fg' },
  withdrawn: { word: '– withdrawn', tone: 'text-muted-fg' },
}

export function Consents() {
  const { state, consent: chosen } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/consents' })
  const consents = useInfiniteQuery(consentsQuery)
  const me = useQuery(meQuery)
  const isPerson = me.data?.principal.startsWith('user:')
  const items = (consents.data?.pages.flatMap(page => page.items) ?? []).filter(
    each => (!state || each.state === state) && (!chosen || each.id === chosen),
  )
  const isFurther = !!chosen && items.length === 0 && consents.hasNextPage && !consents.isFetching && !consents.error
  // The server lists them by pages: the chosen one may be on a later one.
  useEffect(() => {
    if (isFurther) void consents.fetchNextPage()
  }, [isFurther, consents.fetchNextPage])
  const [isGiving, setGiving] = useState(false)
  return (
    <>
      <TabHead
        name="Consents"
        verbs={
          <>
            <Copy text="countersign consent list" />
            {isPerson && (
              <Button look="primary" onClick={() => setGiving(true)}>
                Give my consent…
              </Button>
            )}
          </>
        }
      >
        A person’s permission to use their data for a purpose. Nobody gives another’s. A call that needs one is decided by the gate consent.
      </TabHead>
      <div className="flex flex-wrap gap-2 pb-3">
        {chosen && items.length > 0 && <Button onClick={() => void navigate({ search: {} })}>Show all</Button>}
        <Select
          label="State"
          value={state ?? ''}
          onChange={value => void navigate({ search: { state: value || undefined }, replace: true })}
          options={[['', 'in any state'], ...Object.keys(STATES).map(each => [each, each] as const)]}
          className="sm:w-44"
        />
      </div>
      <Asked query={consents} />
      {consents.isPending && <Loading />}
      {consents.data && items.length === 0 && !(chosen && consents.hasNextPage) && (
        <Empty title={chosen ? 'There is no such consent' : state ? `No consent is ${state}` : 'Nobody has given a consent'}>
          {chosen || state ? (
            <Button onClick={() => void navigate({ search: {} })}>Show all</Button>
          ) : (
            <>
              It is needed where a policy or an action asks for it:
              <Copy text="countersign consent give files.write_text --expires 30d" className="mt-2" />
            </>
          )}
        </Empty>
      )}
      <ul aria-label="Consents" className="divide-y rounded-md border bg-panel empty:hidden">
        {items.map(consent => (
          <li key={consent.id}>
            <Row consent={consent} isOwn={me.data?.principal === `user:${consent.user_id}`} />
          </li>
        ))}
      </ul>
      <More query={consents}>Show more</More>
      {isGiving && <GiveDialog onClose={() => setGiving(false)} />}
    </>
  )
}

function Row({ consent, isOwn }: { consent: Schemas['ConsentView']; isOwn: boolean }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const users = useQuery(usersQuery)
  const spaces = useQuery(spacesQuery)
  const [isAsking, setAsking] = useState(false)
  const who = users.data?.find(user => user.id === consent.user_id)?.name ?? consent.user_id
  const space = spaces.data?.find(each => each.id === consent.space_id)?.name ?? consent.space_id
  return (
    <div className="grid items-center gap-x-4 gap-y-1 px-3 py-2.5 lg:grid-cols-[minmax(0,1fr)_14rem_8rem_7rem]">
      <div className="min-w-0">
        <p className="font-mono text-[13px] font-medium">
          <Link to="/policies/consents" search={{ consent: consent.id }} className="hover:underline">
            <Foreign text={consent.purpose} />
          </Link>
        </p>
        <p className="text-xs text-muted-fg">
          by <Foreign text={who} />
          {consent.space_id && (
            <>
              {' '}
              in{' '}
              <Link to="/policies/spaces/$space" params={{ space: consent.space_id }} className="underline">
                <Foreign text={space ?? ''} />
              </Link>
            </>
          )}
          {consent.evidence && (
            <>
              {' '}
              · “<Foreign text={consent.evidence} />”
            </>
          )}
        </p>
      </div>
      <Copy text={consent.id} />
      <p className="text-xs">
        <span className={cx('font-medium', STATES[consent.state].tone)}>{STATES[consent.state].word}</span>
        <span className="block text-muted-fg">
          {consent.withdrawn_at ? (
            <When at={consent.withdrawn_at} />
          ) : consent.expires_at ? (
            <>
              ends <When at={consent.expires_at} />
            </>
          ) : (
            <>
              given <When at={consent.given_at} />
            </>
          )}
        </span>
      </p>
      <div className="lg:text-right">
        {isOwn && consent.state === 'live' && (
          <Button look="danger" aria-label={`Withdraw ${consent.purpose}`} onClick={() => setAsking(true)}>
            Withdraw
          </Button>
        )}
      </div>
      {isAsking && (
        <FormDialog
          title="Withdraw your consent"
          verb="Withdraw"
          look="danger"
          onClose={() => setAsking(false)}
          send={async () => {
            await withdrawConsent(consent.id)
            setAsking(false)
            say(`Withdrawn: ${consent.purpose}.`)
            await changed(client)
          }}
        >
          <p>
            At once no call that needs your consent to <code>{line(consent.purpose)}</code> starts any more. You can give it again.
          </p>
          <Copy text={`countersign consent withdraw ${consent.id}`} />
        </FormDialog>
      )}
    </div>
  )
}

function GiveDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const actions = useQuery(actionsQuery)
  const [purpose, setPurpose] = useState('')
  const [space, setSpace] = useState('')
  const [expires, setExpires] = useState('30d')
  const [evidence, setEvidence] = useState('')
  // As on the command line: an action by itself means the purpose of its calls.
  const named = purpose.trim()
  const whole = named === '' || named.includes(':') ? named : `action:${named}`
  const command = [
    `countersign consent give ${quoted(whole || '…')}`,
    space && `--space ${space}`,
    expires && `--expires ${expires}`,
    evidence.trim() && `--evidence ${quoted(evidence.trim())}`,
  ]
  return (
    <FormDialog
      title="Give your consent"
      verb="Give it"
      onClose={onClose}
      disabled={whole === ''}
      send={async () => {
        await giveConsent({ purpose: whole, space_id: space || null, expires_in: expires || null, evidence: evidence.trim() || null })
        onClose()
        say(`You consent to ${whole}.`)
        await changed(client)
      }}
    >
      <Labelled label="To what" help="An action, or a purpose that a policy names, such as purpose:newsletter.">
        <input
          list="consent-purposes"
          value={purpose}
          onChange={event => setPurpose(event.target.value)}
          placeholder="files.write_text"
          className={cx(fieldClass, 'font-mono text-[13px]')}
        />
      </Labelled>
      <datalist id="consent-purposes">
        {actions.data?.sources.flatMap(source => source.actions.map(each => <option key={each.id} value={`action:${each.id}`} />))}
      </datalist>
      <div className="grid gap-3 sm:grid-cols-2">
        <SpaceSelect value={space} onChange={setSpace} />
        <Labelled label="Until">
          <Select
            label="Until"
            value={expires}
            onChange={setExpires}
            options={[['', 'I withdraw it'], ...['24h', '7d', '30d', '90d'].map(each => [each, `in ${each}`] as const)]}
          />
        </Labelled>
      </div>
      <Labelled label="What you were shown, or said">
        <input value={evidence} onChange={event => setEvidence(event.target.value)} placeholder="optional" className={fieldClass} />
      </Labelled>
      <Copy text={command.filter(Boolean).join(' ')} className="max-w-full" />
    </FormDialog>
  )
}
