// Settings: people, tokens, channels, packages, what sources may use, and how long things are kept.
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { PageHead, Tabs } from '@/components/page-head'
import { useOrgEvents } from '@/lib/events'
import { Allowed } from './allowed'
import { Channels } from './channels'
import { Members } from './members'
import { Packages } from './packages'
import { PARTS, type Part } from './parts'
import { Retained } from './retention'
import { Tokens } from './tokens'

const route = getRouteApi('/settings')
const NAMES: Record<Part, string> = {
  members: 'Members',
  tokens: 'Tokens',
  channels: 'Channels',
  packages: 'Packages',
  allowed: 'Allowed',
  retention: 'Retention',
}
const COMMANDS: Record<Part, string> = {
  members: 'countersign user list',
  tokens: 'countersign token list',
  channels: 'countersign channel list',
  packages: 'countersign package list',
  allowed: 'countersign allow host list',
  retention: 'countersign org retention',
}
/** Which lists an event makes old, by the first word of its name. */
const CHANGED: Record<string, readonly string[]> = {
  user: ['users', 'tokens'],
  token: ['tokens'],
  session: ['tokens'],
  channel: ['channels'],
  action: ['packages', 'package', 'review'],
  package: ['packages', 'package'],
  allowed: ['allowed'],
  source: ['allowed'],
  retention: ['retention'],
}

export function Settings() {
  const { tab = 'members', q = '', ended, channel, package: name } = route.useSearch()
  const navigate = useNavigate({ from: '/settings' })
  const client = useQueryClient()
  useOrgEvents(event => {
    const keys = event === 'reset' ? Object.values(CHANGED).flat() : (CHANGED[event.type.split('.')[0] ?? ''] ?? [])
    for (const key of keys) void client.invalidateQueries({ queryKey: [key] })
  })
  const filter = (text: string) => void navigate({ search: old => ({ ...old, q: text || undefined }), replace: true })
  return (
    <div className="flex h-full flex-col">
      <PageHead title="Settings" command={COMMANDS[tab]}>
        <Tabs
          label="Parts of the settings"
          at={tab}
          tabs={PARTS.map(part => ({ name: part, label: NAMES[part] }))}
          onPick={part => void navigate({ search: { tab: part === 'members' ? undefined : part } })}
        />
      </PageHead>
      <div className="min-h-0 flex-1 overflow-auto">
        {tab === 'members' && <Members q={q} onFilter={filter} />}
        {tab === 'tokens' && (
          <Tokens
            q={q}
            onFilter={filter}
            withEnded={!!ended}
            onEnded={withEnded => void navigate({ search: old => ({ ...old, ended: withEnded || undefined }), replace: true })}
          />
        )}
        {tab === 'channels' && (
          <Channels chosen={channel} onChoose={next => void navigate({ search: old => ({ ...old, channel: next }), replace: true })} />
        )}
        {tab === 'packages' && <Packages chosen={name} onChoose={next => void navigate({ search: old => ({ ...old, package: next }) })} />}
        {tab === 'allowed' && <Allowed />}
        {tab === 'retention' && <Retained />}
      </div>
    </div>
  )
}
