// What would happen to a call now, and why. Nothing is performed, held or counted.

import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import type { Json, Schemas } from '@/api/types'
import { Fact, Facts } from '@/components/facts'
import { Asked } from '@/components/list-page'
import { NearGrants } from '@/components/near-grants'
import { SchemaForm } from '@/components/schema-form'
import { TierBadge } from '@/components/status'
import { Button, Copy, cx, Empty, Failed, fieldClass, Loading, Section } from '@/components/ui'
import { actionQuery, actionsQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { cascade } from '@/lib/decision'
import { explainQuery } from '@/lib/explain'
import { counted } from '@/lib/format'
import { useSending } from '@/lib/sending'
import { quoted, WOULD } from './model'
import { Labelled, Select, submitted, TabHead, Who } from './parts'
import { readCall } from './queries'
import { useSessions } from './use-sessions'

const route = getRouteApi('/policies/explain')
const NOTHING: Json = {}
/** The server says what does not fit. */
const unchecked = () => {}

function paramsIn(text: string | undefined): Json | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
  } catch {
    return undefined
  }
}

export function Explain() {
  const { action, session, params: text } = route.useSearch()
  const params = useMemo(() => paramsIn(text), [text])
  const asked = action && session ? { action, session_id: session, params: params ?? null } : undefined
  const told = useQuery(explainQuery(asked))
  const command = [
    'countersign explain',
    quoted(action ?? ''),
    `--as ${session}`,
    params ? `--params ${quoted(JSON.stringify(params))}` : '',
  ].join(' ')
  return (
    <>
      <TabHead name="Explain" verbs={asked && <Copy text={command.trim()} className="max-w-80" />}>
        Which rule decides a call, step by step. Ask about a call as if an agent made it now, or paste the id of one that was made.
      </TabHead>
      {/* A new address is a new question. */}
      <Question key={`${action}|${session}|${text}`} action={action ?? ''} session={session ?? ''} params={params} />
      {!asked && <Empty title="Choose an action and a session">The session says who asks, and in which space.</Empty>}
      <Asked query={told} />
      {asked && told.isPending && <Loading />}
      {told.data && <Answer told={told.data} />}
    </>
  )
}

function Question({ action: before, session: asked, params }: { action: string; session: string; params: Json | undefined }) {
  const navigate = useNavigate({ from: '/policies/explain' })
  const { sessions, titleOf } = useSessions()
  const actions = useQuery(actionsQuery)
  const [action, setAction] = useState(before)
  const [session, setSession] = useState(asked)
  const known = useQuery({ ...actionQuery(action), enabled: /^[\w-]+\.\S+$/.test(action) })
  const [withParams, setWithParams] = useState(!!params)
  const [given, setGiven] = useState<Json>(params ?? NOTHING)
  const { error, busy, run } = useSending()
  const ask = async () => {
    const id = action.trim()
    if (/^inv_[0-9a-z]+$/.test(id)) {
      const call = await readCall(id)
      await navigate({ search: { action: call.action, session: call.session_id, params: JSON.stringify(call.params) } })
    } else {
      await navigate({ search: { action: id, session: session || undefined, params: withParams ? JSON.stringify(given) : undefined } })
    }
  }
  return (
    <form className="rounded-md border bg-panel p-4" onSubmit={submitted(() => void run('it', ask))}>
      <div className="grid gap-3 sm:grid-cols-2">
        <Labelled label="Action, or the id of a call">
          <input
            list="explain-actions"
            value={action}
            onChange={event => setAction(event.target.value)}
            placeholder="files.write_text, or inv_…"
            className={cx(fieldClass, 'font-mono text-[13px]')}
          />
        </Labelled>
        <Labelled label="As the agent of the session">
          <Select
            label="As the agent of the session"
            value={session}
            onChange={setSession}
            options={[
              ...(session ? [] : [['', 'choose'] as const]),
              ...sessions.filter(each => !each.ended_at || each.id === session).map(each => [each.id, titleOf(each.id)] as const),
            ]}
          />
        </Labelled>
      </div>
      <datalist id="explain-actions">
        {actions.data?.sources.flatMap(source => source.actions.map(each => <option key={each.id} value={each.id} />))}
      </datalist>
      <label className="mt-3 flex items-center gap-2">
        <input
          type="checkbox"
          checked={withParams}
          onChange={event => setWithParams(event.target.checked)}
          className="size-4 accent-primary"
        />
        With params; without, as if they were valid and nothing in them mattered
      </label>
      {withParams && (
        <div className="mt-3">
          {known.data ? (
            <SchemaForm
              key={action}
              schema={known.data.params_schema}
              params={params ?? NOTHING}
              showErrors={false}
              onChange={setGiven}
              onChecked={unchecked}
            />
          ) : (
            <p className="text-muted-fg">Choose an action first.</p>
          )}
        </div>
      )}
      {error && <Failed error={error} />}
      <Button look="primary" type="submit" className="mt-4" busy={!!busy} disabled={!action.trim()}>
        Explain
      </Button>
    </form>
  )
}

const VERDICTS: Record<Schemas['Verdict'], { word: string; tone: string }> = {
  ok: { word: '✓ passes', tone: 'text-ok' },
  needs_approval: { word: '◷ needs approval', tone: 'text-warn' },
  deny: { word: '⊘ denies', tone: 'text-danger' },
  quarantine: { word: '▣ quarantines', tone: 'text-warn' },
  redacted: { word: '✓ redacts', tone: 'text-ok' },
  not_applicable: { word: '– does not apply', tone: 'text-muted-fg' },
}

function Answer({ told }: { told: Schemas['ExplainResponse'] }) {
  const would = WOULD[told.would]
  return (
    <section aria-label="The answer" aria-live="polite" className="mt-4 rounded-md border bg-panel p-4">
      <p className="flex flex-wrap items-center gap-2 text-base">
        <TierBadge tier={told.tier} /> <code className="text-[13px]">{told.action}</code>
        <b className={would.tone}>{would.word}</b>
      </p>
      <p className="foreign mt-1">{line(told.because)}</p>
      {told.errors.length > 0 && (
        <ul className="mt-2 list-disc pl-5 text-danger">
          {told.errors.map(error => (
            <li key={`${error.pointer}${error.message}`} className="foreign">
              <code>{error.pointer || '/'}</code> {line(error.message)}
            </li>
          ))}
        </ul>
      )}
      <Section title="The cascade">
        <p className="foreign">{line(cascade(told.decision).join(' → '))}</p>
        <NearGrants grants={told.near_grants ?? []} />
      </Section>
      <Section title="The gates">
        <ul className="divide-y rounded-md border">
          {told.gates.map(gate => (
            <li key={gate.gate} className="grid gap-x-4 px-3 py-2 sm:grid-cols-[6rem_10rem_minmax(0,1fr)]">
              <span className="font-mono text-[13px]">{gate.gate}</span>
              <span className={VERDICTS[gate.verdict].tone}>{VERDICTS[gate.verdict].word}</span>
              <span className="foreign font-mono text-xs leading-5">
                {gate.determining.map(line).join(', ')}
                {gate.errors?.map(error => (
                  <span key={error} className="block text-danger">
                    {line(error)}
                  </span>
                ))}
              </span>
            </li>
          ))}
        </ul>
      </Section>
      <Section title="Who and where">
        <Facts>
          <Fact name="Principal">
            <Who id={told.principal} />
          </Fact>
          <Fact name="Session">
            <Link to="/policies/sessions/$session" params={{ session: told.session_id }} className="text-primary underline">
              {told.session_id}
            </Link>
          </Fact>
          <Fact name="Space">
            <Link to="/policies/spaces/$space" params={{ space: told.space_id }} className="text-primary underline">
              {told.space_id}
            </Link>
          </Fact>
          {told.drift !== 'none' && <Fact name="Drift">{told.drift}</Fact>}
          {told.approvals_needed != null && <Fact name="Approvals">{counted(told.approvals_needed, 'person', 'people')}</Fact>}
          {told.grant_id && (
            <Fact name="Grant">
              <Link to="/policies/grants/$grant" params={{ grant: told.grant_id }} className="text-primary underline">
                {told.grant_id}
              </Link>{' '}
              would replace the approval
            </Fact>
          )}
        </Facts>
      </Section>
      <p className="mt-3 text-xs">
        Another outcome?{' '}
        <Link to="/policies" search={{ action: told.action, as: told.session_id }} className="text-primary underline">
          its mode
        </Link>{' '}
        ·{' '}
        <Link
          to="/policies/what-if"
          search={{ modes: `${told.action}:${told.decision.mode === 'allow' ? 'require_approval' : 'allow'}` }}
          className="text-primary underline"
        >
          try another on recorded calls
        </Link>
      </p>
    </section>
  )
}
