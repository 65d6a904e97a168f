// What a person says besides yes: why not, for how long, under which rule, with which params.
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import type { Action, ApproveRequest, Invocation } from '@/api/types'
import { Dialog, DialogFoot } from '@/components/dialog'
import { SchemaForm } from '@/components/schema-form'
import { TierBadge } from '@/components/status'
import { Button, Copy, Failed, Foreign, fieldClass } from '@/components/ui'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useSending } from '@/lib/sending'
import { amounts, titleOf } from './model'
import { approveMany, sessionQuery, totalQuery } from './queries'

type Common = { item: Invocation; onClose: () => void }
type Sends = Common & { send: (request: ApproveRequest) => Promise<void> }

const submitted = (act: () => void) => (event: FormEvent) => {
  event.preventDefault()
  act()
}

export function DenyDialog({ item, onClose, onDeny }: Common & { onDeny: (reason: string | undefined) => void }) {
  const [reason, setReason] = useState('')
  return (
    <Dialog title={`Deny ${item.action}`} onClose={onClose}>
      <form onSubmit={submitted(() => onDeny(reason.trim() || undefined))}>
        <label className="mt-3 block">
          Why? The agent reads it.
          <input
            autoFocus
            maxLength={2000}
            value={reason}
            onChange={event => setReason(event.target.value)}
            className={`${fieldClass} mt-1`}
            placeholder="optional"
          />
        </label>
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="danger" type="submit">
            Deny
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

export function GrantDialog({ item, onClose, send }: Sends) {
  const session = useQuery(sessionQuery(item.session_id))
  const [scope, setScope] = useState<'session' | 'automation' | 'org'>('session')
  const [calls, setCalls] = useState('5')
  const [time, setTime] = useState('2h')
  const [of, setOf] = useState('')
  const [max, setMax] = useState('')
  const { error, busy, run } = useSending()
  const summable = amounts(item.params)
  const sum = of === '' ? undefined : { of, max: max.trim(), per: time }
  const isBadSum = sum !== undefined && !/^\d+(\.\d{1,6})?$/.test(sum.max)
  const count = calls.trim() === '' ? null : Number(calls)
  const isBad = count !== null && (!Number.isInteger(count) || count < 1)
  const whose = { session: 'this session', automation: 'this automation', org: 'everybody in the org' }[scope]
  return (
    <Dialog title="Approve, with a grant" onClose={onClose}>
      <form
        onSubmit={submitted(
          () => void run('it', () => send({ mode: 'grant', grant: { scope, calls_max: count, sum_max: sum, expires_in: time } })),
        )}
      >
        <div className="mt-3 grid gap-3 sm:grid-cols-3">
          <label>
            For
            <select value={scope} onChange={event => setScope(event.target.value as typeof scope)} className={`${fieldClass} mt-1`}>
              <option value="session">this session</option>
              {session.data?.automation_id && <option value="automation">this automation</option>}
              <option value="org">the org</option>
            </select>
          </label>
          <label>
            Calls
            <input
              inputMode="numeric"
              value={calls}
              onChange={event => setCalls(event.target.value)}
              aria-invalid={isBad}
              className={`${fieldClass} mt-1`}
              placeholder="any number"
            />
          </label>
          <label>
            Until in
            <select value={time} onChange={event => setTime(event.target.value)} className={`${fieldClass} mt-1`}>
              {['30m', '2h', '8h', '24h', '7d'].map(each => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        </div>
        {summable.length > 0 && (
          <div className="mt-3 grid gap-3 sm:grid-cols-3">
            <label>
              Adding up
              <select value={of} onChange={event => setOf(event.target.value)} className={`${fieldClass} mt-1`}>
                <option value="">nothing</option>
                {summable.map(pointer => (
                  <option key={pointer} value={pointer}>
                    {line(pointer.slice(1))}
                  </option>
                ))}
              </select>
            </label>
            {of !== '' && (
              <label className="sm:col-span-2">
                To at most
                <input
                  inputMode="decimal"
                  value={max}
                  onChange={event => setMax(event.target.value)}
                  aria-invalid={isBadSum}
                  className={`${fieldClass} mt-1`}
                  placeholder="such as 500 or 12.50"
                />
              </label>
            )}
          </div>
        )}
        <p className="mt-3 rounded-md bg-muted p-3">
          This call runs, and then {count === null ? 'any number of calls' : `the next ${counted(count, 'call')}`} of{' '}
          <code>{item.action}</code> by {whose} run without asking, for {time}
          {sum && !isBadSum && `, as long as ${line(of.slice(1))} adds up to at most ${sum.max}`}. A grant never overrules a denial.
        </p>
        {error && <Failed error={error} />}
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" busy={!!busy} disabled={isBad || isBadSum}>
            Approve and grant
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

export function AlwaysDialog({ item, onClose, send }: Sends) {
  const total = useQuery(totalQuery(item.action))
  const session = useQuery(sessionQuery(item.session_id))
  const automation = session.data?.automation_id
  const { error, busy, run } = useSending()
  return (
    <Dialog title="Always allow" onClose={onClose}>
      <p className="mt-3">This call runs, and this rule is written for {automation ? 'its automation' : 'the whole org'}:</p>
      <pre className="mt-2 rounded-md border bg-muted p-3 font-mono text-xs whitespace-pre-wrap">
        {`${automation ? `automation ${automation}` : 'org'}: ${item.action} → allow`}
      </pre>
      <p className="mt-2">
        {total.data === undefined
          ? '…'
          : `It would have matched all ${counted(total.data, 'call')} of this action so far, whatever their params.`}
      </p>
      <p className="mt-1 text-muted-fg">A policy, a space, drift or a kill switch can still make it stricter. To take it back:</p>
      <Copy text={`countersign mode unset ${item.action}${automation ? ` --automation ${automation}` : ''}`} />
      {error && <Failed error={error} />}
      <DialogFoot>
        <Button look="quiet" onClick={onClose}>
          Cancel
        </Button>
        <Button look="primary" busy={!!busy} disabled={!session.data} onClick={() => void run('it', () => send({ mode: 'always' }))}>
          Approve and always allow
        </Button>
      </DialogFoot>
    </Dialog>
  )
}

export function EditDialog({
  item,
  action,
  params,
  onClose,
  send,
}: Sends & { action: Action | undefined; params: Record<string, unknown> }) {
  // What was shown when the dialog was opened is what is edited.
  const [before] = useState(params)
  const [edited, setEdited] = useState(params)
  const [isGood, setGood] = useState(false)
  const [tried, setTried] = useState(false)
  const [confirm, setConfirm] = useState('')
  const { error, busy, run } = useSending()
  const isDanger = item.class === 'danger'
  const isSame = JSON.stringify(edited) === JSON.stringify(before)
  const send1 = () => {
    setTried(true)
    if (isGood) void run('it', () => send({ params: edited, confirm: isDanger ? confirm.trim() : undefined }))
  }
  return (
    <Dialog title={`Edit and approve ${item.action}`} onClose={onClose} wide>
      <form onSubmit={submitted(send1)} className="mt-4">
        <SchemaForm
          schema={action?.params_schema}
          params={before}
          showErrors={tried}
          refused={error?.problem.errors}
          onChange={setEdited}
          onChecked={setGood}
        />
        {isDanger && <Typed action={item.action} value={confirm} onChange={setConfirm} />}
        <p className="mt-4 text-xs text-muted-fg">
          The edited call is checked and decided anew. The receipt keeps what was asked and what you made of it.
        </p>
        {error && <Failed error={error} />}
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" busy={!!busy} disabled={isSame || (isDanger && confirm.trim() !== item.action)}>
            Approve as edited
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

export function ConfirmDialog({ item, onClose, send }: Sends) {
  const [confirm, setConfirm] = useState('')
  const { error, busy, run } = useSending()
  return (
    <Dialog title="Approve a dangerous call" onClose={onClose}>
      <form onSubmit={submitted(() => void run('it', () => send({ confirm: confirm.trim() })))}>
        <Typed action={item.action} value={confirm} onChange={setConfirm} />
        {error && <Failed error={error} />}
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="danger" type="submit" busy={!!busy} disabled={confirm.trim() !== item.action}>
            Approve once
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

function Typed({ action, value, onChange }: { action: string; value: string; onChange: (value: string) => void }) {
  return (
    <label className="mt-3 block">
      To approve it, type <code className="font-semibold">{action}</code>
      <input
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={event => onChange(event.target.value)}
        className={`${fieldClass} mt-1 font-mono`}
      />
    </label>
  )
}

/** One of the server's answers holds a hundred. */
const AT_ONCE = 100

export function BulkDialog({
  items,
  onClose,
  onDone,
}: {
  items: readonly Invocation[]
  onClose: () => void
  onDone: (approved: readonly Invocation[]) => void
}) {
  const able = items.filter(item => item.class !== 'danger')
  const left = items.filter(item => item.class === 'danger')
  const [results, setResults] = useState<{ id: string; text: string; ok: boolean }[]>([])
  const { error, busy, run: sending } = useSending()
  const run = () =>
    sending('it', async () => {
      for (let at = 0; at < able.length; at += AT_ONCE) {
        const { results: got } = await approveMany(able.slice(at, at + AT_ONCE))
        setResults(all => [
          ...all,
          ...got.map(one => ({
            id: one.id,
            ok: !one.problem,
            text: one.problem ? `${one.problem.code}: ${one.problem.detail}` : (one.invocation?.status ?? 'approved'),
          })),
        ])
        onDone(got.flatMap(one => (one.invocation ? [one.invocation] : [])))
      }
    })
  const isDone = results.length > 0 && !busy
  const failed = results.filter(result => !result.ok).length
  return (
    <Dialog title={`Approve ${counted(able.length, 'call')}, each once`} onClose={onClose} wide>
      {isDone && (
        <p className="mt-2 font-medium">
          {results.length - failed} approved{failed > 0 && `, ${failed} not; those stay as they were`}.
        </p>
      )}
      <ul className="mt-3 max-h-[45vh] divide-y overflow-auto rounded-md border">
        {able.map(item => {
          const result = results.find(each => each.id === item.id)
          return (
            <li key={item.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2">
              <TierBadge tier={item.tier} />
              <Foreign text={titleOf(item)} className="min-w-0 flex-1 truncate" />
              {result && <span className={`text-xs ${result.ok ? 'text-ok' : 'w-full text-danger'}`}>{result.text}</span>}
            </li>
          )
        })}
      </ul>
      {left.length > 0 && (
        <p className="mt-2 text-muted-fg">{counted(left.length, 'dangerous call')} left out: those are approved one by one.</p>
      )}
      {error && <Failed error={error} />}
      <DialogFoot>
        <Button look="quiet" onClick={onClose}>
          {isDone ? 'Close' : 'Cancel'}
        </Button>
        {!isDone && (
          <Button look="primary" busy={!!busy} disabled={able.length === 0} onClick={() => void run()}>
            Approve {able.length} once
          </Button>
        )}
      </DialogFoot>
    </Dialog>
  )
}
