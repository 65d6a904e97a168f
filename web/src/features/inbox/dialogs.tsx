// What a person says besides yes: why not, for how long, under which rule, with which params.

import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Action, ApproveRequest, Invocation, Schemas } from '@/api/types'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Field } from '@/components/field'
import { Asked } from '@/components/list-page'
import { SchemaForm } from '@/components/schema-form'
import { TierBadge } from '@/components/status'
import { Button, Copy, cx, Failed, Foreign, fieldClass } from '@/components/ui'
import { callsIn, isAmount, NO_AMOUNT, NO_CALLS } from '@/lib/bounds'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { driftedQuery } from '@/lib/waiting'
import { amounts, hasDrifted, mustToo, titleOf } from './model'
import { alwaysQuery, approveMany, sessionQuery } from './queries'

type Common = {
  item: Invocation
  /** Why the call cannot be answered any more. */
  over: string | undefined
  onClose: () => void
}
type Sends = Common & { send: (request: ApproveRequest) => Promise<void> }

const submitted = (act: () => void) => (event: FormEvent) => {
  event.preventDefault()
  act()
}

/** A button, or a form of which the first field has the focus once it is there. By itself, the first button would have it, such as Cancel. */
function useFocus<T extends HTMLElement>(isThere = true) {
  const target = useRef<T>(null)
  useEffect(() => {
    const first = target.current?.querySelector<HTMLElement>('input, select, textarea')
    if (isThere) (first ?? target.current)?.focus()
  }, [isThere])
  return target
}

/** Why nothing can be sent, or why it was refused. */
function Why({ over, error }: { over: string | undefined; error?: ApiError }) {
  if (!over) return error && <Failed error={error} />
  return (
    <p role="alert" className="mt-3 rounded-md border bg-muted px-3 py-2 font-medium">
      {over}
    </p>
  )
}

export function DenyDialog({ item, over, onClose, onDeny }: Common & { onDeny: (reason: string | undefined) => void }) {
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
        <Why over={over} />
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="danger" type="submit" disabled={!!over}>
            Deny
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

export function GrantDialog({ item, over, onClose, send }: Sends) {
  const session = useQuery(sessionQuery(item.session_id))
  const [picked, setPicked] = useState<'session' | 'automation' | 'org'>()
  const isOfAutomation = !!session.data?.automation_id
  // The session of a step is that of its run alone.
  const scope = picked ?? (isOfAutomation ? 'automation' : 'session')
  const [calls, setCalls] = useState('5')
  const [time, setTime] = useState('2h')
  const [of, setOf] = useState('')
  const [max, setMax] = useState('')
  const { error, busy, run } = useSending()
  const summable = amounts(item.params)
  const sum = of === '' ? undefined : { of, max: max.trim(), per: time }
  const isBadSum = sum !== undefined && !isAmount(sum.max)
  const count = callsIn(calls)
  const isBad = count === undefined || isBadSum
  const whose = { session: isOfAutomation ? 'this run alone' : 'this session', automation: 'this automation', org: 'everybody in the org' }[
    scope
  ]
  return (
    <Dialog title="Approve, with a grant" onClose={onClose}>
      <form
        onSubmit={submitted(
          () => void run('it', () => send({ mode: 'grant', grant: { scope, calls_max: count, sum_max: sum, expires_in: time } })),
        )}
      >
        <div className="mt-3 grid gap-3 sm:grid-cols-3">
          <Field label="For">
            {props => (
              <select {...props} value={scope} onChange={event => setPicked(event.target.value as typeof scope)} className={fieldClass}>
                {isOfAutomation && <option value="automation">this automation</option>}
                <option value="session">{isOfAutomation ? 'this run alone' : 'this session'}</option>
                <option value="org">the org</option>
              </select>
            )}
          </Field>
          <Field label="Calls" told={count === undefined ? NO_CALLS : undefined}>
            {props => (
              <input
                {...props}
                inputMode="numeric"
                value={calls}
                onChange={event => setCalls(event.target.value)}
                className={fieldClass}
                placeholder="any number"
              />
            )}
          </Field>
          <Field label="Lasts">
            {props => (
              <select {...props} value={time} onChange={event => setTime(event.target.value)} className={fieldClass}>
                {['30m', '2h', '8h', '24h', '7d'].map(each => (
                  <option key={each}>{each}</option>
                ))}
              </select>
            )}
          </Field>
        </div>
        {summable.length > 0 && (
          <div className="mt-3 grid gap-3 sm:grid-cols-3">
            <Field label="Adding up">
              {props => (
                <select {...props} value={of} onChange={event => setOf(event.target.value)} className={fieldClass}>
                  <option value="">nothing</option>
                  {summable.map(pointer => (
                    <option key={pointer} value={pointer}>
                      {line(pointer.slice(1))}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            {of !== '' && (
              <div className="sm:col-span-2">
                <Field label="To at most" told={isBadSum ? NO_AMOUNT : undefined}>
                  {props => (
                    <input
                      {...props}
                      inputMode="decimal"
                      value={max}
                      onChange={event => setMax(event.target.value)}
                      className={fieldClass}
                      placeholder="such as 500 or 12.50"
                    />
                  )}
                </Field>
              </div>
            )}
          </div>
        )}
        {!isBad && (
          <p className="mt-3 rounded-md bg-muted p-3">
            This call runs, and then {count == null ? 'any number of calls' : `the next ${counted(count, 'call')}`} of{' '}
            <code>{item.action}</code> by {whose} run without asking, for {time}
            {sum && `, as long as ${line(of.slice(1))} adds up to at most ${sum.max}`}. A grant never overrules a denial.
          </p>
        )}
        <Why over={over} error={error} />
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" busy={!!busy} disabled={isBad || !!over}>
            Approve and grant
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

export function AlwaysDialog({ item, over, onClose, send }: Sends) {
  const session = useQuery(sessionQuery(item.session_id))
  const automation = session.data?.automation_id ?? null
  const tried = useQuery({ ...alwaysQuery(item.action, automation), enabled: !!session.data })
  const { error, busy, run } = useSending()
  const yes = useFocus<HTMLButtonElement>(!!session.data)
  return (
    <Dialog title="Always allow" onClose={onClose}>
      <Asked query={session} />
      {session.data && (
        <>
          <p className="mt-3">This call runs, and this rule is written for {automation ? 'its automation' : 'the whole org'}:</p>
          <pre className="mt-2 rounded-md border bg-muted p-3 font-mono text-xs whitespace-pre-wrap">
            {`${automation ? `automation ${automation}` : 'org'}: ${item.action} → allow`}
          </pre>
          <p className="mt-2">
            {tried.error ? 'What it would have done to earlier calls is not known.' : tried.data ? wouldHave(tried.data) : '…'}
          </p>
          <p className="mt-1 text-muted-fg">A policy, a space, drift or a kill switch can still make it stricter. To take it back:</p>
          <Copy text={`countersign mode unset ${item.action}${automation ? ` --automation ${automation}` : ''}`} />
        </>
      )}
      <Why over={over} error={error} />
      <DialogFoot>
        <Button look="quiet" onClick={onClose}>
          Cancel
        </Button>
        <Button
          ref={yes}
          look="primary"
          busy={!!busy}
          disabled={!session.data || !!over}
          onClick={() => void run('it', () => send({ mode: 'always' }))}
        >
          Approve and always allow
        </Button>
      </DialogFoot>
    </Dialog>
  )
}

/** How many of the action were made is not told: only what would have become of them. */
const wouldHave = ({ changes, replayed, truncated }: Schemas['WhatIfResponse']): string => {
  const freed = changes.filter(change => change.after === 'runs').length
  const among = truncated ? `the newest ${replayed} calls` : counted(replayed, 'call')
  return `Of ${among} of this action in the last 7 days, it would have let ${freed} run without asking, whatever their params.`
}

export function EditDialog({
  item,
  over,
  action,
  params,
  onClose,
  send,
}: Sends & { action: Action | undefined; params: Record<string, unknown> }) {
  // What was shown when the dialog was opened is what is edited.
  const [before] = useState(params)
  const [edited, setEdited] = useState(params)
  /** Not known until the form is loaded. */
  const [isGood, setGood] = useState<boolean>()
  const form = useFocus<HTMLFormElement>(isGood !== undefined)
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
      <form ref={form} onSubmit={submitted(send1)} className="mt-4">
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
        <Why over={over} error={error} />
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" busy={!!busy} disabled={!!over || isSame || (isDanger && confirm.trim() !== item.action)}>
            Approve as edited
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  )
}

export function ConfirmDialog({ item, over, onClose, send }: Sends) {
  const [confirm, setConfirm] = useState('')
  const { error, busy, run } = useSending()
  return (
    <Dialog title="Approve a dangerous call" onClose={onClose}>
      <form onSubmit={submitted(() => void run('it', () => send({ confirm: confirm.trim() })))}>
        <Typed action={item.action} value={confirm} onChange={setConfirm} />
        <Why over={over} error={error} />
        <DialogFoot>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="danger" type="submit" busy={!!busy} disabled={!!over || confirm.trim() !== item.action}>
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

/** An approval may be counted and not suffice. */
const became = (item: Invocation): string => (item.status === 'pending' ? mustToo(item, undefined) : item.status.replace('_', ' '))

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
  const drifted = useQuery(driftedQuery).data
  const nameOf = useNames()
  const whyLeft = (item: Invocation) => {
    if (item.class === 'danger') return 'dangerous'
    return hasDrifted(
      item,
      drifted?.find(action => action.id === item.action),
    )
      ? 'its definition changed'
      : undefined
  }
  const able = items.filter(item => !whyLeft(item))
  const left = items.filter(whyLeft)
  const yes = useFocus<HTMLButtonElement>()
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
            text: one.problem ? `${one.problem.code}: ${one.problem.detail}` : one.invocation ? became(one.invocation) : 'approved',
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
        {[...left, ...able].map(item => {
          const result = results.find(each => each.id === item.id)
          const why = whyLeft(item)
          return (
            <li key={item.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2">
              <TierBadge tier={item.tier} />
              <span className={cx('min-w-0 flex-1', why && 'text-muted-fg')}>
                <Foreign text={titleOf(item)} className="block truncate" />
                <Foreign text={item.session_title || nameOf(item.principal)} className="block truncate text-xs text-muted-fg" />
              </span>
              {why && <span className="text-xs font-medium text-danger">left out: {why}</span>}
              {result && <span className={`text-xs ${result.ok ? 'text-ok' : 'w-full text-danger'}`}>{result.text}</span>}
            </li>
          )
        })}
      </ul>
      {left.length > 0 && (
        <p className="mt-2 text-muted-fg">
          {counted(left.length, 'call')} left out: what is dangerous, or has another definition than was reviewed, is approved by itself.
        </p>
      )}
      {error && <Failed error={error} />}
      <DialogFoot>
        <Button look="quiet" onClick={onClose}>
          {isDone ? 'Close' : 'Cancel'}
        </Button>
        {!isDone && (
          <Button ref={yes} look="primary" busy={!!busy} disabled={able.length === 0} onClick={() => void run()}>
            Approve {able.length} once
          </Button>
        )}
      </DialogFoot>
    </Dialog>
  )
}
