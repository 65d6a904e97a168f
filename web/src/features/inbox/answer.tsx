// One call whole, and the ways to answer it: in the inbox, and on the page of the run that waits for it.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { ApproveRequest, Foresight, Invocation } from '@/api/types'
import { useToasts } from '@/components/toasts'
import { Button, Failed, Loading } from '@/components/ui'
import { Quarantined } from '@/features/quarantine/held'
import { actionQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { serverNow, useNow } from '@/lib/clock'
import { useKeys } from '@/lib/hotkeys'
import { meQuery } from '@/lib/me'
import { useNames } from '@/lib/names'
import { Bar, type Open } from './bar'
import { Card } from './card'
import { type Denials, useDenials } from './denials'
import { AlwaysDialog, ConfirmDialog, DenyDialog, EditDialog, GrantDialog } from './dialogs'
import { cannotEdit, closedBecause, isOpen, mayAlways, mustToo, onlyOnce, titleOf } from './model'
import { approve, foresightQuery, invocationQuery, snooze } from './queries'
import { Settle } from './settle'
import { useShelf } from './shelf'

const SNOOZE = '30m'

/** Tells of an answer that did not count: of which call, why, and what to do. Whoever gave it may look elsewhere by now, so it stays. */
function useRefused(): (item: Invocation, cause: unknown) => Promise<void> {
  const { say } = useToasts()
  const { refresh } = useShelf()
  return async (item, cause) => {
    if (!(cause instanceof ApiError)) throw cause
    const { detail, hint } = cause.problem
    say(`${titleOf(item)}: ${line(detail)}`, { hint: hint ? line(hint) : undefined, stays: true })
    await refresh(item.id).catch(() => {})
  }
}

/** Denials that are sent when their time to be undone is over. */
export function useSentDenials(): Denials {
  const { changed } = useShelf()
  const refused = useRefused()
  return useDenials((item, reason, how) => {
    how(item.id, reason).then(
      done => changed(done.invocation),
      (cause: unknown) => void refused(item, cause),
    )
  })
}

type Props = {
  id: string
  denials: Denials
  isToSettle?: boolean
  /** Whether it is among those that were put off. */
  isPutOff?: boolean
  /** Whether several are selected: then `A` is about those. */
  isOneOfMany?: boolean
}

export function Answer({ id, isToSettle, isPutOff, isOneOfMany, denials }: Props) {
  const { shelf, dispatch, changed, refresh, woken } = useShelf()
  const now = useNow()
  const read = useQuery({ ...invocationQuery(id), initialData: shelf.known.get(id), staleTime: 0 })
  const item = shelf.known.get(id) ?? read.data
  const action = useQuery({ ...actionQuery(item?.action ?? ''), enabled: !!item })
  const isPending = item?.status === 'pending'
  const me = useQuery(meQuery)
  const permissions = me.data?.permissions ?? []
  const client = useQueryClient()
  const foresight = foresightQuery(id, item?.binding?.digest)
  const ahead = useQuery({ ...foresight, enabled: isPending && permissions.includes('approve') })
  const shown = ahead.error ? undefined : ahead.data
  const needed = shown?.approvals_needed ?? undefined
  const { say } = useToasts()
  /** A dialog, and what the card showed when it was opened: the answer is about that. */
  const [open, setOpen] = useState<{ dialog: Open; shown: Foresight | undefined; binding: string | undefined }>()
  const ask = (dialog: Open) => setOpen({ dialog, shown, binding: item?.binding?.digest })
  const [busy, setBusy] = useState(false)

  const tellRefused = useRefused()
  const refused = async (cause: unknown) => item && tellRefused(item, cause)
  /** Nobody approves what they have not seen: if something has happened since, what it would do is looked up first. */
  const isAsShown = async () => {
    // The cache keeps what is the same, so that it need not be compared.
    const cached = () => client.getQueryData(foresight.queryKey)
    return (await client.fetchQuery(foresight).then(cached, () => undefined)) === (open ? open.shown : shown)
  }
  const send = async (request: ApproveRequest) => {
    if (!item) return
    // With other params it does something else, which nobody has looked up.
    if (!request.params && !(await isAsShown())) {
      setOpen(undefined)
      say(`${item.action}: what was shown of it no longer holds. Look at it again, then answer.`)
      // It may have ended, too.
      await refresh(id).catch(() => {})
      return
    }
    const done = await approve(item, open ? { ...request, binding: open.binding } : request)
    changed(done.invocation)
    setOpen(undefined)
    const beyond = done.grant ? ` Grant ${done.grant.id} is active.` : done.mode ? ` ${done.mode.action} is allowed from now on.` : ''
    const became = done.invocation.status === 'pending' ? mustToo(done.invocation, needed) : `${done.invocation.status.replace('_', ' ')}.`
    say(`${item.action}: ${became}${beyond}`)
  }
  /** A refusal stays in the dialog, unless what the dialog is about is over or was edited. */
  const sendFromDialog = async (request: ApproveRequest) => {
    try {
      await send(request)
    } catch (cause) {
      const current = await refresh(id).catch(() => undefined)
      if (!current || (isOpen(current, serverNow()) && current.binding?.digest === open?.binding)) throw cause
      setOpen(undefined)
      await refused(cause)
    }
  }
  const sendNow = async () => {
    if (!item) return
    setBusy(true)
    try {
      await send(item.class === 'danger' ? { confirm: item.action } : {})
    } catch (cause) {
      await refused(cause)
    } finally {
      setBusy(false)
    }
  }
  const closed = !item || !isOpen(item, now)
  const nameOf = useNames()
  const over = item && closedBecause(item, now, nameOf)
  // What came back may be held of a call that succeeded: then only the list that it is in says so.
  const isHeld = item?.status === 'quarantined' || (isToSettle && item?.status !== 'in_doubt' && !item?.settled)
  const isDenying = denials.denying.has(id)
  const looking = ahead.isPending ? 'What it would do is being looked up.' : undefined
  const hasApproved = item?.approvals?.some(({ by }) => by === me.data?.principal) ? mustToo(item, needed) : undefined
  const blocked = hasApproved ?? (ahead.data?.blocked ? line(ahead.data.blocked.message) : looking)
  const noGrant = item && onlyOnce(item, action.data)
  const noAlways = item && mayAlways(item, action.data, permissions)
  const params = (ahead.data?.params as Record<string, unknown> | undefined) ?? item?.params ?? {}
  const noEdit = cannotEdit(params)
  const noAnswer =
    me.data && !permissions.includes('approve') ? 'You can read this call, and people with another role answer it.' : undefined
  /** Who answers could not be read, so nobody knows what they may do. */
  const unknown = me.data ? undefined : (me.error as ApiError | null)
  const can = !closed && !busy && !isDenying && !unknown && !noAnswer && !open
  const isLater = isPutOff || shelf.snoozed.has(id)

  const wake = async () => {
    await snooze(id, '0s')
    woken(id)
  }
  const putOff = async () => {
    const { until } = await snooze(id, SNOOZE)
    dispatch({ kind: 'snoozed', id, until })
    say('Put off for 30 minutes. Nothing is decided.', { undo: () => void wake().catch(refused) })
  }
  const later = () => void (isLater ? wake() : putOff()).catch(refused)
  /** A key for what cannot be done says why. */
  const unless = (why: string | undefined, act: () => void) => can && (why ? say(why) : act())
  useKeys({
    ...(!isOneOfMany && { a: () => unless(blocked, () => (item?.class === 'danger' ? ask('confirm') : void sendNow())) }),
    d: () => can && ask('deny'),
    e: () => unless(noEdit, () => ask('edit')),
    g: () => unless(blocked ?? noGrant, () => ask('grant')),
    'Shift+a': () => unless(blocked ?? noAlways, () => ask('always')),
    l: () => can && later(),
  })

  if (read.error && !item) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  if (!item) return <Loading />
  const close = () => setOpen(undefined)
  const common = { item, over, onClose: close, send: sendFromDialog }
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="min-h-0 flex-1 overflow-auto">
        <Card
          item={item}
          action={action.data}
          ahead={ahead.data}
          aheadError={ahead.error}
          isLooking={ahead.isLoading || me.isLoading}
          isLookingAgain={ahead.isRefetching}
          snoozedUntil={shelf.snoozed.get(id)}
        />
      </div>
      {isDenying ? (
        <div className="flex items-center gap-3 border-t bg-panel px-4 py-3 md:px-6">
          <span aria-live="polite" className="flex-1">
            Denying in a moment…
          </span>
          <Button onClick={() => denials.undo(id) && say('Not denied. It is still pending.')}>Undo</Button>
        </div>
      ) : !closed && unknown ? (
        <Failed error={unknown} retry={() => void me.refetch()} />
      ) : (
        !closed && (
          <Bar
            item={item}
            blocked={blocked}
            hasApproved={hasApproved}
            noGrant={noGrant}
            noAlways={noAlways}
            noEdit={noEdit}
            noAnswer={noAnswer}
            busy={busy}
            isLater={isLater}
            isOneOfMany={isOneOfMany}
            onApprove={() => void sendNow()}
            onOpen={ask}
            onLater={later}
          />
        )
      )}
      {item.status === 'in_doubt' && <Settle item={item} onSettled={changed} />}
      {isHeld && (
        <div className="max-h-[50%] overflow-auto border-t bg-panel px-4 py-3 md:px-6">
          <Quarantined id={item.id} onSettled={() => void refresh(id).catch(() => {})} />
        </div>
      )}
      {open?.dialog === 'deny' && (
        <DenyDialog
          {...common}
          onDeny={reason => {
            denials.deny(item, reason)
            close()
          }}
        />
      )}
      {open?.dialog === 'grant' && <GrantDialog {...common} />}
      {open?.dialog === 'always' && <AlwaysDialog {...common} />}
      {open?.dialog === 'confirm' && <ConfirmDialog {...common} />}
      {open?.dialog === 'edit' && <EditDialog {...common} action={action.data} params={params} />}
    </div>
  )
}
