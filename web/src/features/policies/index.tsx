// Policies and grants: every rule that decides, one tab with an address of its own for each kind.
import { Link, Outlet, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { useRequestedGrants } from '@/lib/grants'
import { DraftProvider, useDraft } from './draft'
import { useRulesLive } from './queries'
import { TABS } from './tabs'

export function Policies() {
  useRulesLive()
  const tabs = useRef<HTMLElement>(null)
  const requests = useRequestedGrants()
  const place = useLocation({ select: at => at.pathname })
  // On a narrow screen the tabs scroll: the chosen one is brought into sight.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it follows the address, and makes room for a number that comes later
  useEffect(() => {
    tabs.current?.querySelector('[aria-current=page]')?.scrollIntoView({ inline: 'center', block: 'nearest' })
  }, [place, requests])
  return (
    <DraftProvider>
      <div className="flex h-full flex-col">
        <header className="border-b px-4 pt-3 md:px-6">
          <h1 className="text-lg font-semibold">Policies & grants</h1>
          <nav ref={tabs} aria-label="Kinds of rules" className="-mb-px flex gap-1 overflow-x-auto pt-2">
            {TABS.map(tab => (
              <Link
                key={tab.to}
                to={tab.to}
                activeOptions={{ exact: tab.to === '/policies', includeSearch: false }}
                activeProps={{ className: 'border-primary font-medium text-fg', 'aria-current': 'page' }}
                inactiveProps={{ className: 'border-transparent text-muted-fg hover:text-fg' }}
                className="flex items-center gap-1.5 border-b-2 px-2.5 py-2 whitespace-nowrap"
              >
                {tab.name}
                {tab.to === '/policies/grants' && <Requests />}
                {tab.to === '/policies/cedar' && <Drafted />}
              </Link>
            ))}
          </nav>
        </header>
        <div className="min-h-0 flex-1 overflow-auto px-4 pb-10 md:px-6">
          <Outlet />
        </div>
      </div>
    </DraftProvider>
  )
}

/** How many requests for a grant wait. */
function Requests() {
  const count = useRequestedGrants()
  if (count === 0) return null
  return (
    <span className="rounded-full bg-primary px-1.5 text-[11px] leading-4 font-medium text-primary-fg tabular-nums">
      {count}
      <span className="sr-only"> requested</span>
    </span>
  )
}

function Drafted() {
  return useDraft().draft ? (
    <span className="text-warn" title="There is a draft that is not saved">
      ●<span className="sr-only"> a draft</span>
    </span>
  ) : null
}
