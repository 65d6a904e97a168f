// Where one can go: the pages that stand in the navigation.

import {
  Activity,
  ChartColumn,
  FileCheck,
  History,
  Inbox as InboxIcon,
  KeyRound,
  ListTree,
  type LucideIcon,
  MessageSquareText,
  Package,
  Plug,
  Scale,
  Settings as SettingsIcon,
  ShieldAlert,
  Workflow,
  Zap,
} from 'lucide-react'

export type Place = {
  to:
    | '/'
    | '/receipts'
    | '/actions'
    | '/overview'
    | '/automations'
    | '/runs'
    | '/invocations'
    | '/events'
    | '/artifacts'
    | '/settings'
    | '/sources'
    | '/secrets'
    | '/quarantine'
    | '/policies'
    | '/notifications'
  name: string
  icon: LucideIcon
  keys: string
}
export const PLACES: readonly Place[] = [
  { to: '/', name: 'Inbox', icon: InboxIcon, keys: 'g i' },
  { to: '/notifications', name: 'Notifications', icon: MessageSquareText, keys: 'g m' },
  { to: '/overview', name: 'Overview', icon: ChartColumn, keys: 'g o' },
  { to: '/automations', name: 'Automations', icon: Workflow, keys: 'g a' },
  { to: '/runs', name: 'Runs', icon: History, keys: 'g r' },
  { to: '/actions', name: 'Actions', icon: Zap, keys: 'g d' },
  { to: '/sources', name: 'Sources', icon: Plug, keys: 'g s' },
  { to: '/secrets', name: 'Secrets', icon: KeyRound, keys: 'g k' },
  { to: '/policies', name: 'Policies', icon: Scale, keys: 'g p' },
  { to: '/invocations', name: 'Invocations', icon: ListTree, keys: 'g n' },
  { to: '/receipts', name: 'Receipts', icon: FileCheck, keys: 'g c' },
  { to: '/quarantine', name: 'Quarantine', icon: ShieldAlert, keys: 'g q' },
  { to: '/events', name: 'Events', icon: Activity, keys: 'g e' },
  { to: '/artifacts', name: 'Artifacts', icon: Package, keys: 'g t' },
  { to: '/settings', name: 'Settings', icon: SettingsIcon, keys: 'g ,' },
]
