// The inbox: what waits for a person, one of it whole, and the ways to answer.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft, RefreshCw, Scale } from 'lucide-react'
import { useMemo, useRef, useState } from 'react'
import { ApiError } from '@/api/client'
import type { Action, ApproveRequest, Invocation } from '@/api/types'
import { Tabs } from '@/components/page-head'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Empty, Failed, fieldClass, Loading, When } from '@/components/ui'
import { tryOut } from '@/features/actions/queries'
import { Quarantined } from '@/features/quarantine/held'
import { actionQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { useOpenFirst } from '@/lib/first'
import { counted } from '@/lib/format'
import { useRequestedGrants } from '@/lib/grants'
import { useKeys } from '@/lib/hotkeys'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { driftedQuery, useWaiting } from '@/lib/waiting'
import { Bar, type Open } from './bar'
import { Card } from './card'
import { type Denials, useDenials } from './denials'
import { AlwaysDialog, BulkDialog, ConfirmDialog, DenyDialog, EditDialog, GrantDialog } from './dialogs'
import { List } from './list'
import { alike, cannotEdit, gone, isOpen, matches, mayAlways, onlyOnce, range } from './model'
import { approve, deny, foresightQuery, invocationQuery, lastDecisionQuery, listedQuery, snooze } from './queries'
import { Settle } from './settle'
import { useShelf } from './shelf'

export const TABS = ['pending', 'attention', 'snoozed', 'decided'] as const
export type Tab = (typeof TABS)[number]
const NAMES: Record<Tab, string> = { pending: 'Pending', attention: 'To settle', snoozed: 'Later', decided: 'Decided' }
const SNOOZE = '30m'

const route = getRouteApi('/')

export function Inbox() {
  const { tab = 'pending', call, q = '' } = route.useSearch()
  const navigate = useNavigate({ from: '/' })
  const { shelf, listed, dispatch, changed, refresh } = useShelf()
  const { say } = useToasts()
  const denials = useDenials((item, reason) => {
    deny(item.id, reason).then(
      done => changed(done.invocation),
      (cause: unknown) => {
        say(cause instanceof ApiError ? line(cause.problem.detail) : String(cause))
        void refresh(item.id).catch(() => {})
      },
    )
  })
  const others = useQuery({ ...listedQuery(tab === 'pending' ? 'decided' : tab), enabled: tab !== 'pending' })
  const now = useNow()
  const filter = useRef<HTMLInputElement>(null)

  const items = useMemo(() => {
    const all = tab === 'pending' ? shelf.shown.flatMap(id => shelf.known.get(id) ?? []) : (others.data ?? [])
    return all.filter(item => matches(item, q))
  }, [tab, shelf, others.data, q])
  const select = (id: string | undefined) =>
    void navigate({ search: old => ({ ...old, call: id }), replace: call !== undefined && id !== undefined })

  useOpenFirst(!!call, items[0]?.id, id => void navigate({ search: old => ({ ...old, call: id }), replace: true }))

  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set())
  const lastMarked = useRef<string>(undefined)
  const mark = (id: string, to?: string) => {
    const ids = to ? range(shelf.shown, to, id) : [id]
    setMarked(old => {
      const next = new Set(old)
      for (const each of ids) to || !next.has(each) ? next.add(each) : next.delete(each)
      return next
    })
    lastMarked.current = id
  }
  const chosen = [...marked].flatMap(id => shelf.known.get(id) ?? []).filter(item => isOpen(item, now))
  const open = items.filter(item => isOpen(item, now) && !shelf.snoozed.has(item.id))
  const like = shelf.known.get(lastMarked.current ?? '')
  const [bulk, setBulk] = useState<readonly Invocation[]>()

  const move = (by: number) => {
    const at = items.findIndex(item => item.id === call)
    const next = items[Math.min(items.length - 1, Math.max(0, at + by))]
    if (next) select(next.id)
  }
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    '/': () => filter.current?.focus(),
    escape: () => (marked.size ? setMarked(new Set()) : select(undefined)),
    x: () => call && mark(call),
    'Shift+x': () => call && mark(call, lastMarked.current ?? call),
    n: () => dispatch({ kind: 'revealed' }),
  })

  const drifted = useQuery(driftedQuery)
  const waiting = useWaiting()
  const counts: Partial<Record<Tab, number>> = { attention: waiting.doubted + waiting.held + waiting.drifted }

  const error = (tab === 'pending' ? listed.error : others.error) as ApiError | null
  const isLoading = tab === 'pending' ? listed.isPending : others.isPending
  const news = shelf.waiting.length
  const ended = tab === 'pending' ? gone(shelf, now) : 0
  return (
    <div className="flex h-full min-h-0">
      <h1 className="sr-only">Inbox</h1>
      <section aria-label="Inbox" className={cx('flex w-full flex-col border-r md:w-[25rem] md:shrink-0', call && 'max-md:hidden')}>
        <div className="border-b px-3 pb-3">
          <Tabs
            label="Which calls"
            at={tab}
            tabs={TABS.map(name => ({ name, label: NAMES[name], count: counts[name] }))}
            onPick={name => void navigate({ search: old => ({ ...old, tab: name === 'pending' ? undefined : name, call: undefined }) })}
          />
        </div>
        <div className="border-b p-2">
          <input
            ref={filter}
            type="search"
            value={q}
            aria-label="Filter"
            placeholder="Filter by action, session, params…   /"
            onChange={event => void navigate({ search: old => ({ ...old, q: event.target.value || undefined }), replace: true })}
            onKeyDown={event => event.key === 'Escape' && event.currentTarget.blur()}
            className={fieldClass}
          />
        </div>
        {tab === 'pending' && <GrantRequests />}
        {tab === 'pending' && (news > 0 || ended > 0) && (
          <Button look="quiet" hotkey="N" className="rounded-none border-b text-primary" onClick={() => dispatch({ kind: 'revealed' })}>
            <span aria-live="polite">
              {news > 0 && `${news} new`}
              {news > 0 && ended > 0 && ' · '}
              {ended > 0 && `clear ${ended} ended`}
            </span>
          </Button>
        )}
        {tab === 'attention' && <Drifted actions={drifted.data ?? []} />}
        {error && <Failed error={error} />}
        {isLoading && !error ? (
          <Loading />
        ) : items.length > 0 ? (
          <List
            items={items}
            selected={call}
            marked={marked}
            snoozed={shelf.snoozed}
            onSelect={select}
            onMove={move}
            onMark={tab === 'pending' && shelf.shown.length > 1 ? id => mark(id) : undefined}
          />
        ) : (
          !error &&
          !(tab === 'attention' && drifted.data?.length && !q) && (
            <NothingHere tab={tab} onClear={q ? () => void navigate({ search: old => ({ ...old, q: undefined }) }) : undefined} />
          )
        )}
        {marked.size > 0 && (
          <div className="flex items-center gap-2 border-t bg-panel p-3">
            <span className="flex-1">{counted(chosen.length, 'call')} selected</span>
            <Button
              look="quiet"
              disabled={!like}
              title="Those that ask for the same action with the same params"
              onClick={() => like && setMarked(new Set([...marked, ...alike(open, like)]))}
            >
              All alike
            </Button>
            <Button look="quiet" onClick={() => setMarked(new Set())}>
              Clear
            </Button>
            <Button look="primary" disabled={chosen.length === 0} onClick={() => setBulk(chosen)}>
              Approve each once…
            </Button>
          </div>
        )}
      </section>
      <section aria-label="The selected call" className={cx('min-w-0 flex-1', !call && 'max-md:hidden')}>
        {call ? (
          <Detail key={call} id={call} isToSettle={tab === 'attention'} denials={denials} onBack={() => select(undefined)} />
        ) : (
          <Empty title="Nothing is selected">{items.length > 0 ? 'J and K move through the list.' : undefined}</Empty>
        )}
      </section>
      {bulk && <Bulk items={bulk} onClose={() => setBulk(undefined)} onApproved={() => setMarked(new Set())} />}
    </div>
  )
}

function Bulk({ items, onClose, onApproved }: { items: readonly Invocation[]; onClose: () => void; onApproved: () => void }) {
  const { changed } = useShelf()
  return (
    <BulkDialog
      items={items}
      onClose={onClose}
      onDone={approved => {
        for (const item of approved) changed(item)
        onApproved()
      }}
    />
  )
}

/** Requests for grants, which are no calls. */
function GrantRequests() {
  const count = useRequestedGrants()
  if (count === 0) return null
  return (
    <Link to="/policies/grants" className="flex items-center gap-2 border-b px-3 py-2 text-primary hover:bg-muted">
      <Scale aria-hidden className="size-3.5 shrink-0" />
      <span aria-live="polite">
        {counted(count, 'grant request')} {count === 1 ? 'waits' : 'wait'}
      </span>
    </Link>
  )
}

/** Definitions to review, which are no calls. */
function Drifted({ actions }: { actions: readonly Action[] }) {
  if (actions.length === 0) return null
  return (
    <section aria-label="Definitions to review" className="max-h-[50%] shrink-0 overflow-auto border-b">
      <h2 className="bg-muted px-3 py-1 text-xs font-semibold text-muted-fg">{counted(actions.length, 'definition')} to review</h2>
      {actions.map(action => (
        <Link
          key={action.id}
          to="/actions"
          search={{ action: action.id }}
          className="flex items-center gap-2 border-t px-3 py-2 hover:bg-muted"
        >
          <RefreshCw aria-hidden className="size-3.5 shrink-0 text-danger" />
          <span className="min-w-0 flex-1 truncate font-mono text-[13px]">{action.id}</span>
          <span className="shrink-0 text-xs text-muted-fg">{action.drift === 'appeared' ? 'new' : 'changed'}</span>
        </Link>
      ))}
    </section>
  )
}

function NothingHere({ tab, onClear }: { tab: Tab; onClear?: () => void }) {
  if (onClear)
    return (
      <Empty title="Nothing fits the filter">
        <Button onClick={onClear}>Show all</Button>
      </Empty>
    )
  if (tab === 'pending') return <NothingWaits />
  const { title, text } = EMPTY_TABS[tab]
  return <Empty title={title}>{text}</Empty>
}

const EMPTY_TABS: Record<Exclude<Tab, 'pending'>, { title: string; text: string }> = {
  attention: {
    title: 'Nothing is to be settled',
    text: 'Calls whose outcome is unknown, what is in quarantine, and definitions that changed appear here.',
  },
  snoozed: { title: 'Nothing was put off', text: 'L hides a call for half an hour. It decides nothing.' },
  decided: { title: 'Nothing was decided yet', text: 'What people or rules decided stays here, with its receipt.' },
}

/** The way from an agent to this page can be tried before there is an agent. */
function NothingWaits() {
  const last = useQuery(lastDecisionQuery)
  const mayTry = useMay().includes('invoke')
  const { error, busy, run } = useSending()
  const { say } = useToasts()
  const test = () =>
    run('it', async () => {
      const { invocation } = await tryOut('files.write_text', { path: 'test-request.txt', text: 'A test of the inbox.\n' }, false)
      if (invocation.status !== 'pending') say(`No person is asked for this: it is ${invocation.status.replace('_', ' ')}.`)
    })
  return (
    <Empty title="Nothing waits for you">
      {last.data && (
        <p className="mb-3">
          The last decision was <When at={last.data} />.
        </p>
      )}
      <p>When an agent asks for something that needs a person, it appears here by itself. To connect one:</p>
      <Copy text="countersign connect claude-code --write" className="mt-3" />
      <p className="mt-3">To see first what happens then, in five minutes, on a server of its own:</p>
      <Copy text="countersign demo" className="mt-3" />
      {mayTry && (
        <p className="mt-4">
          <Button busy={!!busy} onClick={() => void test()}>
            Send a test request
          </Button>
        </p>
      )}
      {error && <Failed error={error} />}
    </Empty>
  )
}

function Detail({ id, isToSettle, denials, onBack }: { id: string; isToSettle: boolean; denials: Denials; onBack: () => void }) {
  const { shelf, dispatch, changed, refresh } = useShelf()
  const now = useNow()
  const read = useQuery({ ...invocationQuery(id), initialData: shelf.known.get(id), staleTime: 0 })
  const item = shelf.known.get(id) ?? read.data
  const action = useQuery({ ...actionQuery(item?.action ?? ''), enabled: !!item })
  const isPending = item?.status === 'pending'
  const permissions = useMay()
  const ahead = useQuery({ ...foresightQuery(id, item?.binding?.digest), enabled: isPending && permissions.includes('approve') })
  const { say } = useToasts()
  const [open, setOpen] = useState<Open>()
  const [busy, setBusy] = useState(false)

  /** What another person or the clock decided first is told as what it is, not as a failure. */
  const refused = async (cause: unknown) => {
    if (!(cause instanceof ApiError)) throw cause
    say(line(cause.problem.detail))
    await refresh(id).catch(() => {})
  }
  const send = async (request: ApproveRequest) => {
    if (!item) return
    const done = await approve(item, request)
    changed(done.invocation)
    setOpen(undefined)
    const beyond = done.grant ? ` Grant ${done.grant.id} is active.` : done.mode ? ` ${done.mode.action} is allowed from now on.` : ''
    say(
      `${item.action}: ${done.invocation.status === 'pending' ? (done.message ?? 'counted; another person has to approve it too') : done.invocation.status.replace('_', ' ')}.${beyond}`,
    )
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
  // What came back may be held of a call that succeeded: then only the list that it is in says so.
  const isHeld = item?.status === 'quarantined' || (isToSettle && item?.status !== 'in_doubt' && !item?.settled)
  const isDenying = denials.denying.has(id)
  const blocked = ahead.data?.blocked?.message ?? (ahead.isFetched ? undefined : 'What it would do is being looked up.')
  const noGrant = item && onlyOnce(item, action.data)
  const noAlways = item && mayAlways(item, action.data, permissions)
  const params = (ahead.data?.params as Record<string, unknown> | undefined) ?? item?.params ?? {}
  const noEdit = cannotEdit(params)
  const noAnswer =
    permissions.length > 0 && !permissions.includes('approve')
      ? 'You can read this call, and people with another role answer it.'
      : undefined
  const can = !closed && !busy && !isDenying && !noAnswer

  const later = async () => {
    try {
      const { until } = await snooze(id, SNOOZE)
      dispatch({ kind: 'snoozed', id, until })
      say('Put off for 30 minutes. Nothing is decided.', { undo: () => void snooze(id, '0s').then(() => dispatch({ kind: 'woken', id })) })
    } catch (cause) {
      await refused(cause)
    }
  }
  useKeys({
    a: () => can && !blocked && (item?.class === 'danger' ? setOpen('confirm') : void sendNow()),
    d: () => can && setOpen('deny'),
    e: () => can && (noEdit ? say(noEdit) : setOpen('edit')),
    g: () => can && !blocked && (noGrant ? say(noGrant) : setOpen('grant')),
    'Shift+a': () => can && !blocked && (noAlways ? say(noAlways) : setOpen('always')),
    l: () => can && void later(),
  })

  if (read.error && !item) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  if (!item) return <Loading />
  const close = () => setOpen(undefined)
  const common = { item, onClose: close, send }
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Button look="quiet" className="self-start md:hidden" onClick={onBack}>
        <ArrowLeft aria-hidden className="size-4" /> Inbox
      </Button>
      <div className="min-h-0 flex-1 overflow-auto">
        <Card
          item={item}
          action={action.data}
          ahead={ahead.data}
          aheadError={ahead.error}
          isLooking={ahead.isLoading}
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
      ) : (
        !closed && (
          <Bar
            item={item}
            blocked={blocked}
            noGrant={noGrant}
            noAlways={noAlways}
            noEdit={noEdit}
            noAnswer={noAnswer}
            busy={busy}
            onApprove={() => void sendNow()}
            onOpen={setOpen}
            onLater={() => void later()}
          />
        )
      )}
      {item.status === 'in_doubt' && <Settle item={item} onSettled={changed} />}
      {isHeld && (
        <div className="max-h-[50%] overflow-auto border-t bg-panel px-4 py-3 md:px-6">
          <Quarantined id={item.id} onSettled={() => void refresh(id).catch(() => {})} />
        </div>
      )}
      {open === 'deny' && (
        <DenyDialog
          item={item}
          onClose={close}
          onDeny={reason => {
            denials.deny(item, reason)
            close()
          }}
        />
      )}
      {open === 'grant' && <GrantDialog {...common} />}
      {open === 'always' && <AlwaysDialog {...common} />}
      {open === 'confirm' && <ConfirmDialog {...common} />}
      {open === 'edit' && <EditDialog {...common} action={action.data} params={params} />}
    </div>
  )
}
