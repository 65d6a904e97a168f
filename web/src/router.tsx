// Every page has an address, and so has every filter.
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  Link,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router'
import type { Schemas } from '@/api/types'
import { Shell } from '@/components/shell'
import { Button, Empty } from '@/components/ui'
import { Inbox, TABS, type Tab } from '@/features/inbox'
import { RANGES, type Range } from '@/features/overview/range'
import { PARTS, type Part } from '@/features/settings/parts'

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined

/** A bug of ours: the page says so, and the rest goes on. */
function Broken({ error, reset }: ErrorComponentProps) {
  return (
    <Empty title="This page broke">
      <p className="foreign mb-3">{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={reset}>Show it again</Button>
    </Empty>
  )
}

function NotFound() {
  return (
    <Empty title="There is no such page">
      <Link to="/" className="text-primary underline">
        To the inbox
      </Link>
    </Empty>
  )
}

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })

export type InboxSearch = { tab?: Tab; call?: string; q?: string }
const inbox = createRoute({
  getParentRoute: () => root,
  path: '/',
  staticData: { title: 'Inbox' },
  component: Inbox,
  validateSearch: (search): InboxSearch => ({ tab: TABS.find(tab => tab === search.tab), call: text(search.call), q: text(search.q) }),
})

export type ReceiptsSearch = { action?: string; session?: string; status?: string; since?: string; trace_id?: string }
const receipts = createRoute({
  getParentRoute: () => root,
  path: '/receipts',
  staticData: { title: 'Receipts' },
  component: lazyRouteComponent(() => import('@/features/receipts'), 'Receipts'),
  validateSearch: (search): ReceiptsSearch => ({
    action: text(search.action),
    session: text(search.session),
    status: text(search.status),
    since: text(search.since),
    trace_id: text(search.trace_id),
  }),
})
const receipt = createRoute({
  getParentRoute: () => root,
  path: '/receipts/$receipt',
  staticData: { title: 'Receipt' },
  component: lazyRouteComponent(() => import('@/features/receipts/receipt'), 'Receipt'),
})

export type ActionsSearch = { action?: string; q?: string }
const actions = createRoute({
  getParentRoute: () => root,
  path: '/actions',
  staticData: { title: 'Actions' },
  component: lazyRouteComponent(() => import('@/features/actions'), 'Actions'),
  validateSearch: (search): ActionsSearch => ({ action: text(search.action), q: text(search.q) }),
})

export type SourcesSearch = { q?: string; show?: 'drifted' | 'failing'; add?: string }
const sources = createRoute({
  getParentRoute: () => root,
  path: '/sources',
  staticData: { title: 'Sources' },
  component: lazyRouteComponent(() => import('@/features/sources'), 'Sources'),
  validateSearch: (search): SourcesSearch => ({
    q: text(search.q),
    show: (['drifted', 'failing'] as const).find(show => show === search.show),
    add: text(search.add),
  }),
})
const source = createRoute({
  getParentRoute: () => root,
  path: '/sources/$source',
  staticData: { title: 'Source' },
  component: lazyRouteComponent(() => import('@/features/sources/source'), 'SourcePage'),
  validateSearch: (search): { edit?: true } => ({ edit: search.edit === true ? true : undefined }),
})

export type SecretsSearch = { secret?: string; connection?: string; q?: string }
const secrets = createRoute({
  getParentRoute: () => root,
  path: '/secrets',
  staticData: { title: 'Secrets' },
  component: lazyRouteComponent(() => import('@/features/secrets'), 'Secrets'),
  validateSearch: (search): SecretsSearch => ({ secret: text(search.secret), connection: text(search.connection), q: text(search.q) }),
})

export type QuarantineSearch = { state?: 'held' | 'released' | 'discarded' | 'expired'; call?: string }
const quarantine = createRoute({
  getParentRoute: () => root,
  path: '/quarantine',
  staticData: { title: 'Quarantine' },
  component: lazyRouteComponent(() => import('@/features/quarantine'), 'Quarantine'),
  validateSearch: (search): QuarantineSearch => ({
    state: (['held', 'released', 'discarded', 'expired'] as const).find(state => state === search.state),
    call: text(search.call),
  }),
})

/** Search params that are texts, by their names. */
const texts =
  <Name extends string>(...names: Name[]) =>
  (search: Record<string, unknown>): { [K in Name]?: string } =>
    Object.fromEntries(names.map(name => [name, text(search[name])])) as { [K in Name]?: string }

const policies = createRoute({
  getParentRoute: () => root,
  path: '/policies',
  staticData: { title: 'Policies' },
  component: lazyRouteComponent(() => import('@/features/policies'), 'Policies'),
})
const ofPolicies = () => policies
const policyPages = [
  createRoute({
    getParentRoute: ofPolicies,
    path: '/',
    staticData: { title: 'Modes' },
    component: lazyRouteComponent(() => import('@/features/policies/modes'), 'Modes'),
    validateSearch: texts('q', 'as', 'automation', 'only', 'action'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/cedar',
    staticData: { title: 'Cedar' },
    component: lazyRouteComponent(() => import('@/features/policies/cedar'), 'Cedar'),
    validateSearch: texts('set', 'version'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/what-if',
    staticData: { title: 'What if' },
    component: lazyRouteComponent(() => import('@/features/policies/what-if'), 'WhatIf'),
    validateSearch: texts('last', 'modes', 'kind'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/explain',
    staticData: { title: 'Explain' },
    component: lazyRouteComponent(() => import('@/features/policies/explain'), 'Explain'),
    validateSearch: texts('action', 'session', 'params'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/grants',
    staticData: { title: 'Grants' },
    component: lazyRouteComponent(() => import('@/features/policies/grants'), 'Grants'),
    validateSearch: texts('state', 'session'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/grants/$grant',
    staticData: { title: 'Grant' },
    component: lazyRouteComponent(() => import('@/features/policies/grant'), 'Grant'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/consents',
    staticData: { title: 'Consents' },
    component: lazyRouteComponent(() => import('@/features/policies/consents'), 'Consents'),
    validateSearch: texts('state', 'consent'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/spaces',
    staticData: { title: 'Spaces' },
    component: lazyRouteComponent(() => import('@/features/policies/spaces'), 'Spaces'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/spaces/$space',
    staticData: { title: 'Space' },
    component: lazyRouteComponent(() => import('@/features/policies/space'), 'Space'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/observe',
    staticData: { title: 'Observe' },
    component: lazyRouteComponent(() => import('@/features/policies/observe'), 'Observe'),
    validateSearch: texts('space', 'since'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/kill-switch',
    staticData: { title: 'Kill switch' },
    component: lazyRouteComponent(() => import('@/features/policies/kill-switch'), 'KillSwitch'),
    validateSearch: texts('scope'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/sessions',
    staticData: { title: 'Sessions' },
    component: lazyRouteComponent(() => import('@/features/policies/sessions'), 'Sessions'),
    validateSearch: texts('q', 'state'),
  }),
  createRoute({
    getParentRoute: ofPolicies,
    path: '/sessions/$session',
    staticData: { title: 'Session' },
    component: lazyRouteComponent(() => import('@/features/policies/session'), 'Session'),
  }),
] as const

/** Where people look for these first: what is behind the name goes along. */
const shortcuts = ['grants', 'spaces', 'sessions', 'kill-switch', 'observe'].map(name =>
  createRoute({
    getParentRoute: () => root,
    path: `/${name}/$`,
    beforeLoad: ({ location }) => {
      throw redirect({ href: `/policies${location.href}`, replace: true })
    },
  }),
)

export type OverviewSearch = { range?: Range }
const overview = createRoute({
  getParentRoute: () => root,
  path: '/overview',
  staticData: { title: 'Overview' },
  component: lazyRouteComponent(() => import('@/features/overview'), 'Overview'),
  validateSearch: (search): OverviewSearch => ({ range: RANGES.find(range => range === search.range) }),
})
export type InvocationsSearch = { status?: string; action?: string; session?: string; tier?: string }
const invocations = createRoute({
  getParentRoute: () => root,
  path: '/invocations',
  staticData: { title: 'Invocations' },
  component: lazyRouteComponent(() => import('@/features/invocations'), 'Invocations'),
  validateSearch: (search): InvocationsSearch => ({
    status: text(search.status),
    action: text(search.action),
    session: text(search.session),
    tier: text(search.tier),
  }),
})
const invocation = createRoute({
  getParentRoute: () => root,
  path: '/invocations/$invocation',
  staticData: { title: 'Invocation' },
  component: lazyRouteComponent(() => import('@/features/invocations/invocation'), 'OneInvocation'),
})
type LetterKind = Schemas['LetterKind']
const LETTER_KINDS: readonly LetterKind[] = ['event', 'delivery', 'invocation']
export type EventsSearch = { tab?: 'dead' | 'groups'; type?: string; subject?: string; kind?: LetterKind; event?: string; letter?: string }
const events = createRoute({
  getParentRoute: () => root,
  path: '/events',
  staticData: { title: 'Events' },
  component: lazyRouteComponent(() => import('@/features/events'), 'Events'),
  validateSearch: (search): EventsSearch => ({
    tab: (['dead', 'groups'] as const).find(tab => tab === search.tab),
    type: text(search.type),
    subject: text(search.subject),
    kind: LETTER_KINDS.find(kind => kind === search.kind),
    event: text(search.event),
    letter: text(search.letter),
  }),
})
export type SettingsSearch = { tab?: Part; q?: string; ended?: true; channel?: string; package?: string }
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  staticData: { title: 'Settings' },
  component: lazyRouteComponent(() => import('@/features/settings'), 'Settings'),
  validateSearch: (search): SettingsSearch => ({
    tab: PARTS.find(tab => tab === search.tab),
    q: text(search.q),
    ended: search.ended === true ? true : undefined,
    channel: text(search.channel),
    package: text(search.package),
  }),
})

const automations = createRoute({
  getParentRoute: () => root,
  path: '/automations',
  staticData: { title: 'Automations' },
  component: lazyRouteComponent(() => import('@/features/automations'), 'Automations'),
  validateSearch: texts('status', 'q'),
})
const gallery = createRoute({
  getParentRoute: () => root,
  path: '/automations/gallery',
  staticData: { title: 'Gallery' },
  component: lazyRouteComponent(() => import('@/features/automations/gallery'), 'Gallery'),
  validateSearch: texts('starter'),
})
const newAutomation = createRoute({
  getParentRoute: () => root,
  path: '/automations/new',
  staticData: { title: 'New automation' },
  component: lazyRouteComponent(() => import('@/features/automations/edit'), 'NewAutomation'),
  validateSearch: texts('view'),
})
const draft = createRoute({
  getParentRoute: () => root,
  path: '/automations/drafts/$draft',
  staticData: { title: 'Draft' },
  component: lazyRouteComponent(() => import('@/features/automations/draft'), 'OneDraft'),
})
const automation = createRoute({
  getParentRoute: () => root,
  path: '/automations/$automation',
  staticData: { title: 'Automation' },
  component: lazyRouteComponent(() => import('@/features/automations/automation'), 'OneAutomation'),
  validateSearch: texts('tab', 'version', 'outcome'),
})
const editAutomation = createRoute({
  getParentRoute: () => root,
  path: '/automations/$automation/edit',
  staticData: { title: 'Edit' },
  component: lazyRouteComponent(() => import('@/features/automations/edit'), 'EditAutomation'),
  validateSearch: texts('view'),
})
const runs = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  staticData: { title: 'Runs' },
  component: lazyRouteComponent(() => import('@/features/runs'), 'Runs'),
  validateSearch: texts('automation', 'status', 'only'),
})
const run = createRoute({
  getParentRoute: () => root,
  path: '/runs/$run',
  staticData: { title: 'Run' },
  component: lazyRouteComponent(() => import('@/features/runs/run'), 'OneRun'),
  validateSearch: texts('step'),
})
const notifications = createRoute({
  getParentRoute: () => root,
  path: '/notifications',
  staticData: { title: 'Notifications' },
  component: lazyRouteComponent(() => import('@/features/notifications'), 'Notifications'),
  validateSearch: texts('notification'),
})
const artifacts = createRoute({
  getParentRoute: () => root,
  path: '/artifacts',
  staticData: { title: 'Artifacts' },
  component: lazyRouteComponent(() => import('@/features/artifacts'), 'Artifacts'),
  validateSearch: texts('artifact'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    sources,
    source,
    secrets,
    quarantine,
    policies.addChildren(policyPages),
    inbox,
    receipts,
    receipt,
    actions,
    overview,
    invocations,
    invocation,
    events,
    settings,
    automations,
    gallery,
    newAutomation,
    draft,
    automation,
    editAutomation,
    runs,
    run,
    artifacts,
    notifications,
    // No link of ours names them, so the types of links need not know them.
    ...(shortcuts as []),
  ]),
  defaultPreload: 'intent',
  defaultErrorComponent: Broken,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface StaticDataRouteOption {
    /** What the page is called in the title of the window. */
    title?: string
  }
}
