// ⌘K: pages, pending calls, actions, what has a name, and ids, from the keyboard.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useMemo, useState } from 'react'
import { api, body } from '@/api/client'
import { titleOf } from '@/features/inbox/model'
import { useShelf } from '@/features/inbox/shelf'
import { TABS as POLICY_TABS } from '@/features/policies/tabs'
import { PARTS } from '@/features/settings/parts'
import { actionsQuery } from '@/lib/actions'
import { automationsQuery } from '@/lib/automations'
import { ago } from '@/lib/format'
import { useNotifications } from '@/lib/notice'
import { found, placeOfId } from '@/lib/search'
import { setTheme } from '@/lib/theme'
import { Dialog } from './dialog'
import { PLACES } from './places'
import { cx, Foreign, fieldClass } from './ui'

type Hit = { id: string; kind: string; text: string; go: () => void }
/** All pages and commands, before anything is typed. */
const MOST = 20

/** The newest of each that has a name and an id; none of those that this person may not list. */
const namedQuery = queryOptions({
  queryKey: ['palette'],
  queryFn: async () => {
    const newest = { params: { query: { limit: 100 } } }
    const none = () => ({ items: [] })
    const [sessions, spaces, secrets, connections, grants, runs] = await Promise.all([
      body(api.GET('/api/v1/sessions', newest)).catch(none),
      body(api.GET('/api/v1/spaces', newest)).catch(none),
      body(api.GET('/api/v1/secrets', newest)).catch(none),
      body(api.GET('/api/v1/connections', newest)).catch(none),
      body(api.GET('/api/v1/grants', newest)).catch(none),
      body(api.GET('/api/v1/runs', newest)).catch(none),
    ])
    return [
      ...spaces.items.map(({ id, name }) => ({ id, kind: 'space', text: name })),
      ...secrets.items.map(({ id, name }) => ({ id, kind: 'secret', text: name })),
      ...connections.items.map(({ id, name }) => ({ id, kind: 'connection', text: name })),
      ...sessions.items.map(({ id, title }) => ({ id, kind: 'session', text: title || id })),
      ...grants.items.map(({ id, covers, session_title, state }) => ({
        id,
        kind: 'grant',
        text: [covers, session_title, state].filter(Boolean).join(' · '),
      })),
      ...runs.items.map(({ id, automation_name, status, created_at }) => ({
        id,
        kind: 'run',
        text: `${automation_name ?? id} · ${status} · ${ago(created_at, Date.now())}`,
      })),
    ]
  },
})

export function Palette({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const { shelf } = useShelf()
  const actions = useQuery(actionsQuery)
  const automations = useQuery(automationsQuery)
  const named = useQuery(namedQuery)
  const notifications = useNotifications()
  const [query, setQuery] = useState('')
  const [at, setAt] = useState(0)
  const all = useMemo<Hit[]>(
    () => [
      ...PLACES.map(place => ({ id: place.to, kind: 'page', text: place.name, go: () => void navigate({ to: place.to }) })),
      ...(notifications.state === 'off'
        ? [{ id: 'notify', kind: 'command', text: 'Notify me in this browser', go: () => void notifications.ask() }]
        : []),
      { id: 'account', kind: 'page', text: 'Account: who is logged in, log out', go: () => location.assign('/login') },
      { id: 'dark', kind: 'command', text: 'Theme: dark', go: () => setTheme('dark') },
      { id: 'light', kind: 'command', text: 'Theme: light', go: () => setTheme('light') },
      { id: 'system', kind: 'command', text: 'Theme: as the system', go: () => setTheme('system') },
      ...POLICY_TABS.map(tab => ({
        id: `rules ${tab.name}`,
        kind: 'page',
        text: `Policies: ${tab.name}`,
        go: () => void navigate({ to: tab.to }),
      })),
      ...PARTS.map(part => ({
        id: `settings ${part}`,
        kind: 'page',
        text: `Settings: ${part}`,
        go: () => void navigate({ to: '/settings', search: { tab: part } }),
      })),
      ...[...shelf.known.values()].map(item => ({
        id: item.id,
        kind: 'call',
        text: titleOf(item),
        go: () => void navigate({ to: '/', search: { call: item.id } }),
      })),
      { id: 'gallery', kind: 'page', text: 'Automations: gallery', go: () => void navigate({ to: '/automations/gallery' }) },
      ...(automations.data ?? []).map(automation => ({
        id: automation.id,
        kind: 'automation',
        text: automation.name,
        go: () => void navigate({ to: '/automations/$automation', params: { automation: automation.id } }),
      })),
      ...(actions.data?.sources ?? []).map(source => ({
        id: source.id,
        kind: 'source',
        text: source.title === source.id ? source.id : `${source.id} · ${source.title}`,
        go: () => void navigate({ to: '/sources/$source', params: { source: source.id } }),
      })),
      ...(actions.data?.sources ?? []).flatMap(source =>
        source.actions.map(action => ({
          id: action.id,
          kind: 'action',
          text: action.id,
          go: () => void navigate({ to: '/actions', search: { action: action.id } }),
        })),
      ),
      ...(named.data ?? []).map(each => ({ ...each, go: () => void navigate({ href: placeOfId(each.id) }) })),
    ],
    [navigate, shelf, actions.data, automations.data, named.data, notifications.state, notifications.ask],
  )
  const hits = useMemo(() => {
    const place = placeOfId(query)
    if (!place) return found(all, query, hit => hit.text, MOST)
    const go = () => void navigate({ href: place })
    return [{ id: 'id', kind: 'open', text: query.trim(), go }]
  }, [all, query, navigate])
  const pick = (hit: Hit | undefined) => {
    if (!hit) return
    onClose()
    hit.go()
  }
  const move = (to: number) => {
    if (!hits[to]) return
    setAt(to)
    document.getElementById(`palette-${to}`)?.scrollIntoView?.({ block: 'nearest' })
  }
  const pressed = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') move(at + 1)
    else if (event.key === 'ArrowUp') move(at - 1)
    else if (event.key === 'Enter') pick(hits[at])
    else return
    event.preventDefault()
  }
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        autoFocus
        role="combobox"
        aria-expanded
        aria-controls="palette"
        aria-activedescendant={hits[at] && `palette-${at}`}
        aria-label="Search pages, calls, actions, names and ids"
        placeholder="A page, a call, an action, a name, an id"
        value={query}
        onChange={event => {
          setQuery(event.target.value)
          setAt(0)
        }}
        onKeyDown={pressed}
        className={`${fieldClass} mt-3`}
      />
      <div id="palette" role="listbox" aria-label="Found" className="mt-2 max-h-80 overflow-auto">
        {hits.map((hit, index) => (
          <div
            key={`${hit.kind}${hit.id}`}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onClick={() => pick(hit)}
            onKeyDown={pressed}
            onPointerMove={() => setAt(index)}
            className={cx('flex items-baseline gap-3 rounded px-2 py-1.5', index === at && 'bg-accent')}
          >
            <span className="w-20 shrink-0 text-xs text-muted-fg">{hit.kind}</span>
            <Foreign text={hit.text} className="truncate" />
          </div>
        ))}
        {hits.length === 0 && <p className="px-2 py-3 text-muted-fg">Nothing is called so.</p>}
      </div>
    </Dialog>
  )
}
