// A grant to be given: what it covers, for whom, and every bound it has.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Field } from '@/components/field'
import { Button, Copy, cx, Failed, fieldClass } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { callsIn, isAmount, NO_AMOUNT, NO_CALLS, NO_PARAM } from '@/lib/bounds'
import { counted } from '@/lib/format'
import { useSending } from '@/lib/sending'
import { giveCommand } from './model'
import { Labelled, Select, SpaceSelect, submitted } from './parts'
import { changed, giveGrant } from './queries'
import { useSessions } from './use-sessions'

type Props = {
  session?: string
  /** What is filled in already, such as what a report suggests. */
  start?: Schemas['NewGrantRequest']
  onClose: () => void
  onGiven: (grant: Schemas['GrantView']) => void
}

export function GiveDialog({ session: chosen, start, onClose, onGiven }: Props) {
  const client = useQueryClient()
  const actions = useQuery(actionsQuery)
  const { sessions, titleOf } = useSessions()
  const [covers, setCovers] = useState(start?.covers ?? '')
  const [scope, setScope] = useState<Schemas['GrantScopeName']>(start?.scope ?? 'session')
  const [session, setSession] = useState(start?.session_id ?? chosen ?? '')
  const [automation, setAutomation] = useState(start?.automation_id ?? '')
  const [space, setSpace] = useState(start?.space_id ?? '')
  const [calls, setCalls] = useState(start ? String(start.calls_max ?? '') : '5')
  const [expires, setExpires] = useState(start?.expires_in ?? '2h')
  const [sum, setSum] = useState({ max: '', of: '', per: '24h' })
  const [condition, setCondition] = useState('')
  const [reason, setReason] = useState(start?.reason ?? '')
  const { error, busy, run } = useSending()

  const callsMax = callsIn(calls)
  const hasSum = sum.max.trim() !== '' || sum.of.trim() !== ''
  const isBadSum = hasSum && !isAmount(sum.max)
  const isBadOf = hasSum && !sum.of.trim().startsWith('/')
  const schema = conditionOf(condition)
  const isBad =
    !covers.trim() ||
    callsMax === undefined ||
    isBadSum ||
    isBadOf ||
    schema === 'bad' ||
    (scope === 'session' && !session) ||
    (scope === 'automation' && !automation)
  const grant: Schemas['NewGrantRequest'] = {
    covers: covers.trim(),
    scope,
    session_id: scope === 'session' ? session : null,
    automation_id: scope === 'automation' ? automation.trim() : null,
    space_id: space || null,
    condition: schema === 'bad' ? null : schema,
    calls_max: callsMax ?? null,
    sum_max: hasSum ? { of: sum.of.trim(), max: sum.max.trim(), per: sum.per } : null,
    expires_in: expires,
    reason: reason.trim() || null,
  }
  const whose = {
    session: session ? `the session “${titleOf(session)}”` : 'a session',
    automation: 'the automation',
    org: 'everybody in the org',
  }[scope]
  const give = async () => {
    const given = await giveGrant(grant)
    onClose()
    onGiven(given)
    await changed(client)
  }
  const open = sessions.filter(each => !each.ended_at)
  return (
    <Dialog title="Give a grant" onClose={onClose} wide>
      <form onSubmit={submitted(() => void run('it', give))} className="mt-3 space-y-3">
        <Labelled label="What it covers" help="One action, a source such as files.*, a name in any source such as *.send, or *. Never R4.">
          <input
            list="grant-covers"
            value={covers}
            onChange={event => setCovers(event.target.value)}
            placeholder="files.write_text"
            className={cx(fieldClass, 'font-mono text-[13px]')}
          />
        </Labelled>
        <datalist id="grant-covers">
          {actions.data?.sources.flatMap(source => [
            ...source.actions.map(each => <option key={each.id} value={each.id} />),
            <option key={`${source.id}.*`} value={`${source.id}.*`} />,
          ])}
        </datalist>
        <div className="grid gap-3 sm:grid-cols-2">
          <Labelled label="For the calls of">
            <Select
              label="For the calls of"
              value={scope}
              onChange={value => setScope(value as typeof scope)}
              options={[
                ['session', 'one session'],
                ['automation', 'one automation'],
                ['org', 'everybody in the org'],
              ]}
            />
          </Labelled>
          {scope === 'session' && (
            <Labelled label="Session">
              <Select
                label="Session"
                value={session}
                onChange={setSession}
                options={[...(session ? [] : [['', 'choose'] as const]), ...open.map(each => [each.id, titleOf(each.id)] as const)]}
              />
            </Labelled>
          )}
          {scope === 'automation' && (
            <Labelled label="Automation">
              <input value={automation} onChange={event => setAutomation(event.target.value)} placeholder="aut_…" className={fieldClass} />
            </Labelled>
          )}
          <SpaceSelect value={space} onChange={setSpace} />
          <Field label="Calls" told={callsMax === undefined ? NO_CALLS : undefined}>
            {props => (
              <input
                {...props}
                inputMode="numeric"
                value={calls}
                onChange={event => setCalls(event.target.value)}
                placeholder="any number"
                className={fieldClass}
              />
            )}
          </Field>
          <Labelled label="Ends in">
            <Select
              label="Ends in"
              value={expires}
              onChange={setExpires}
              options={['30m', '2h', '8h', '24h', '7d', '30d', '90d'].map(each => [each, each] as const)}
            />
          </Labelled>
        </div>
        <details>
          <summary className="cursor-pointer text-primary">A sum, and a condition on the params</summary>
          <div className="mt-2 grid gap-3 sm:grid-cols-3">
            <Field label="Sum at most" told={isBadSum ? NO_AMOUNT : undefined}>
              {props => (
                <input
                  {...props}
                  value={sum.max}
                  onChange={event => setSum({ ...sum, max: event.target.value })}
                  placeholder="500"
                  inputMode="decimal"
                  className={fieldClass}
                />
              )}
            </Field>
            <Field label="Of the param" told={isBadOf ? NO_PARAM : undefined}>
              {props => (
                <input
                  {...props}
                  value={sum.of}
                  onChange={event => setSum({ ...sum, of: event.target.value })}
                  placeholder="/amount"
                  className={cx(fieldClass, 'font-mono')}
                />
              )}
            </Field>
            <Labelled label="In any">
              <Select
                label="In any"
                value={sum.per}
                onChange={per => setSum({ ...sum, per })}
                options={['1h', '24h', '7d', '30d'].map(each => [each, each] as const)}
              />
            </Labelled>
          </div>
          <div className="mt-3">
            <Labelled
              label="Condition"
              help={schema === 'bad' ? 'This is not a JSON object.' : 'A JSON Schema that the params must fit, too.'}
            >
              <textarea
                rows={4}
                spellCheck={false}
                value={condition}
                onChange={event => setCondition(event.target.value)}
                aria-invalid={schema === 'bad'}
                placeholder={'{"properties": {"path": {"pattern": "^notes/"}}}'}
                className={cx(fieldClass, 'font-mono text-xs')}
              />
            </Labelled>
          </div>
        </details>
        <Labelled label="Why">
          <input value={reason} onChange={event => setReason(event.target.value)} placeholder="optional" className={fieldClass} />
        </Labelled>
        {!isBad && (
          <p className="foreign rounded-md bg-muted p-3">
            {callsMax == null ? 'Any number of calls' : `The next ${counted(callsMax, 'call')}`} of <code>{grant.covers}</code> by {whose}{' '}
            run without asking, for {expires}
            {grant.sum_max && `, as long as ${grant.sum_max.of} adds up to at most ${grant.sum_max.max} in any ${sum.per}`}. A grant never
            overrules a denial.
          </p>
        )}
        {error && <Failed error={error} />}
        <DialogFoot>
          {!isBad && <Copy text={giveCommand(grant)} className="mr-auto max-w-full sm:max-w-80" />}
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" busy={!!busy} disabled={isBad}>
            Give it
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

function conditionOf(text: string): Record<string, unknown> | null | 'bad' {
  if (text.trim() === '') return null
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : 'bad'
  } catch {
    return 'bad'
  }
}
