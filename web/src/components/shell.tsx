// What stands around every page: where one can go, whether the stream is live, who is logged in.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useMatches, useNavigate } from '@tanstack/react-router'
import { Bell, Moon, Pause, Play, Search, Sun } from 'lucide-react'
import { useEffect, useState } from 'react'
import { ApiError, api, body, isLoggedOut, onLogin } from '@/api/client'
import { isOpen } from '@/features/inbox/model'
import { useShelf } from '@/features/inbox/shelf'
import { useNow } from '@/lib/clock'
import { useLive } from '@/lib/events'
import { useRequestedGrants, useRequestedGrantsLive } from '@/lib/grants'
import { paletteKeys, useKeys } from '@/lib/hotkeys'
import type { Live } from '@/lib/live'
import { meQuery, useLoggedOut } from '@/lib/me'
import { useBadge, useLogoutNotification, useNotifications, useTitle } from '@/lib/notice'
import { useUnread, useUnreadLive } from '@/lib/notifications'
import { setTheme } from '@/lib/theme'
import { useWaiting, useWaitingLive } from '@/lib/waiting'
import { Help } from './help'
import { Palette } from './palette'
import { PLACES, type Place } from './places'
import { Button, cx, Failed, Kbd, useLate } from './ui'

/** On a phone there is room for a few; the palette has the rest. */
const TABS = PLACES.filter(place => ['/', '/runs', '/overview'].includes(place.to))

/** Words for which there is no room beside a page: then the icons stand alone. */
const WIDE = 'max-lg:sr-only'

export function Shell() {
  const navigate = useNavigate()
  const [open, setOpen] = useState<'palette' | 'help'>()
  const { shelf } = useShelf()
  const now = useNow()
  const asking = [...shelf.known.values()].filter(item => isOpen(item, now) && !shelf.snoozed.has(item.id)).map(item => item.id)
  const waiting = asking.length
  useRequestedGrantsLive()
  useWaitingLive()
  useUnreadLive()
  const { drifted, held, dead } = useWaiting()
  const { state } = useLive()
  const counts: Partial<Record<Place['to'], number | string>> = {
    '/': waiting,
    '/notifications': useUnread().count,
    '/sources': drifted,
    '/policies': useRequestedGrants(),
    '/quarantine': held,
    '/events': dead,
  }
  const page = useMatches({ select: matches => matches.findLast(match => match.staticData.title)?.staticData.title })
  const isOut = useLoggedOut()
  useTitle(isOut ? 'Logged out' : page, isOut ? 0 : waiting)
  useBadge(isOut ? '!' : waiting)
  // Ids sort by birth.
  useNotifications(waiting, () => void navigate({ to: '/', search: { call: asking.sort().at(-1) } }))
  useLogoutNotification(isOut)
  useKeys({
    'Mod+k': () => setOpen('palette'),
    '?': () => setOpen('help'),
    ...Object.fromEntries(PLACES.map(place => [place.keys, () => void navigate({ to: place.to })])),
  })
  return (
    <div className="flex h-full flex-col md:flex-row">
      <a href="#page" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-panel focus:p-2">
        To the page
      </a>
      <aside className="flex w-52 shrink-0 flex-col gap-3 border-r bg-panel p-3 max-md:hidden max-lg:w-16 max-lg:px-2">
        <p className="flex items-center gap-2 px-2 pt-1 font-semibold max-lg:justify-center">
          <img src="/favicon.svg" alt="" className="size-5" /> <span className={WIDE}>Countersign</span>
        </p>
        <Button className="font-normal text-muted-fg lg:justify-start" onClick={() => setOpen('palette')}>
          <Search aria-hidden className="size-4 shrink-0" /> <span className={cx(WIDE, 'flex-1 text-left')}>Search</span>
          <span className="max-lg:hidden">
            <Kbd>{paletteKeys()}</Kbd>
          </span>
        </Button>
        <nav aria-label="Pages" className="-m-1 min-h-0 flex-1 space-y-1 overflow-y-auto p-1">
          {PLACES.map(place => (
            <Go key={place.to} place={place} count={counts[place.to] ?? 0} />
          ))}
        </nav>
        <div className="space-y-2 text-xs lg:px-2">
          <LivePill />
          <NotifyToggle />
          <Who />
        </div>
      </aside>
      <main id="page" className="flex min-h-0 min-w-0 flex-1 flex-col">
        {state !== 'live' && state !== 'logged out' && <NotLive state={state} />}
        <KillSwitch />
        <Session />
        <div className="min-h-0 flex-1">
          <Outlet />
        </div>
      </main>
      <nav aria-label="Pages" className="flex border-t bg-panel pb-[env(safe-area-inset-bottom)] md:hidden">
        {TABS.map(place => (
          <Go key={place.to} place={place} count={counts[place.to] ?? 0} isTab />
        ))}
        <button
          type="button"
          className="flex min-h-12 flex-1 flex-col items-center justify-center text-xs text-muted-fg"
          onClick={() => setOpen('palette')}
        >
          <Search aria-hidden className="size-4" /> More
        </button>
      </nav>
      {open === 'palette' && <Palette onClose={() => setOpen(undefined)} />}
      {open === 'help' && <Help onClose={() => setOpen(undefined)} />}
    </div>
  )
}

function Go({ place: { to, name, icon: Icon, keys }, count, isTab }: { place: Place; count: number | string; isTab?: boolean }) {
  return (
    <Link
      to={to}
      title={`${name} (${keys})`}
      activeOptions={{ exact: to === '/', includeSearch: false }}
      activeProps={{ className: 'bg-accent font-medium text-fg', 'aria-current': 'page' }}
      inactiveProps={{ className: 'text-muted-fg hover:bg-muted hover:text-fg' }}
      className={cx(
        'relative flex items-center',
        isTab ? 'min-h-12 flex-1 flex-col justify-center text-xs' : 'gap-2 rounded-md px-2 py-1.5 max-lg:justify-center max-lg:py-2.5',
      )}
    >
      <Icon aria-hidden className="size-4" /> <span className={isTab ? undefined : WIDE}>{name}</span>
      {!!count && (
        <span
          className={cx(
            'rounded-full bg-primary px-1.5 text-[11px] leading-4 font-medium text-primary-fg tabular-nums',
            isTab ? 'absolute top-0.5 left-1/2 ml-2' : 'ml-auto max-lg:absolute max-lg:top-0 max-lg:right-0',
          )}
        >
          {count}
          <span className="sr-only"> waiting</span>
        </span>
      )}
    </Link>
  )
}

function LivePill() {
  const { state, pause } = useLive()
  const tone = state === 'live' ? 'bg-ok' : state === 'paused' ? 'bg-muted-fg' : 'bg-warn'
  return (
    <p className="flex items-center gap-2 max-lg:justify-center" title={state}>
      <span aria-hidden className={cx('size-2 rounded-full', tone)} />{' '}
      <span aria-live="polite" className={WIDE}>
        {state}
      </span>
      <button
        type="button"
        className="rounded p-1 hover:bg-muted lg:ml-auto"
        aria-label={state === 'paused' ? 'Go on' : 'Pause the stream'}
        onClick={() => pause(state !== 'paused')}
      >
        {state === 'paused' ? <Play className="size-3.5" /> : <Pause className="size-3.5" />}
      </button>
    </p>
  )
}

/** Where no pill says so, once it lasts. */
function NotLive({ state }: { state: Live }) {
  return useLate(2_000) ? (
    <p role="status" className="border-b bg-muted px-4 py-1 text-center text-xs md:hidden">
      The live stream is {state}: what you see may be old.
    </p>
  ) : null
}

function NotifyToggle() {
  const { state, ask, stop, tryIt } = useNotifications()
  if (state === 'on')
    return (
      <p className="flex items-center gap-2 text-muted-fg max-lg:hidden">
        <Bell aria-hidden className="size-3.5" /> Notified
        <button type="button" className="ml-auto underline hover:text-fg" onClick={tryIt}>
          try
        </button>
        <button type="button" className="underline hover:text-fg" onClick={stop}>
          stop
        </button>
      </p>
    )
  const why = {
    unsupported: 'This browser shows no notifications.',
    insecure: 'Notifications need https or localhost.',
    refused: 'Refused: allow it in the browser’s settings.',
    off: undefined,
  }[state]
  return why ? (
    <p className="text-muted-fg max-lg:hidden">{why}</p>
  ) : (
    <button type="button" title="Notify me" className="flex items-center gap-2 text-muted-fg hover:text-fg max-lg:mx-auto" onClick={ask}>
      <Bell aria-hidden className="size-3.5" /> <span className={WIDE}>Notify me</span>
    </button>
  )
}

function Who() {
  const me = useQuery(meQuery)
  return (
    <p className="flex items-center gap-2 border-t pt-2 max-lg:flex-col">
      <span className="min-w-0 flex-1 truncate max-lg:hidden" title={me.data?.principal}>
        {me.data?.name} {me.data?.role !== me.data?.name && <span className="text-muted-fg">{me.data?.role}</span>}
      </span>
      <button
        type="button"
        className="rounded p-1 hover:bg-muted"
        aria-label="Light or dark"
        onClick={() => setTheme(document.documentElement.classList.contains('dark') ? 'light' : 'dark')}
      >
        <Moon className="size-3.5 dark:hidden" />
        <Sun className="hidden size-3.5 dark:block" />
      </button>
      <a className="underline" href="/login">
        account
      </a>
    </p>
  )
}

/** A banner on every page while something is stopped. */
function KillSwitch() {
  const switches = useQuery({
    queryKey: ['switches'],
    queryFn: () => body(api.GET('/api/v1/kill-switches')),
    retry: false,
    refetchInterval: 60_000,
  })
  const on = switches.data?.items ?? []
  if (on.length === 0) return null
  return (
    <p role="status" className="bg-danger px-4 py-1.5 text-center font-medium text-danger-fg">
      A kill switch is on: {on.map(each => each.scope).join(', ')}. Nothing there runs.{' '}
      <Link to="/policies/kill-switch" className="underline">
        Look
      </Link>
    </p>
  )
}

const SENT = 'sent-to-login'
/** Sent there twice within this time, the login helps nobody: the page says so and stays. */
const SENT_MS = 10_000

/** Goes to the login where there is none. Whoever was logged in is asked instead: what they typed here stays. */
function Session() {
  const me = useQuery(meQuery)
  const client = useQueryClient()
  const out = useLoggedOut()
  // Whoever is logged in now may be another person: all of the page is read again.
  useEffect(() => onLogin(() => void (isLoggedOut() || client.invalidateQueries())), [client])
  const login = `/login?next=${encodeURIComponent(location.pathname + location.search)}`
  const wasIn = me.data !== undefined
  useEffect(() => {
    if (!out || wasIn || Date.now() - Number(sessionStorage.getItem(SENT)) < SENT_MS) return
    sessionStorage.setItem(SENT, String(Date.now()))
    location.replace(login)
  }, [out, wasIn, login])
  if (out) {
    return (
      <div role="alert" className="flex flex-wrap items-center justify-center gap-3 border-b bg-muted px-4 py-3">
        You are not logged in here, or no longer.
        <a className="font-medium text-primary underline" href={login}>
          Log in
        </a>
      </div>
    )
  }
  // That nobody was logged in is read again, too.
  return me.error instanceof ApiError && me.error.code !== 'unauthenticated' ? (
    <Failed error={me.error} retry={() => void me.refetch()} />
  ) : null
}
