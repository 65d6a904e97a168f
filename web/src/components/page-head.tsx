// The head of a page: its name, the same on the command line, and its parts.
import { type ReactNode, useEffect, useRef } from 'react'
import { Copy, cx } from './ui'

export function PageHead({ title, command, children }: { title: string; command?: string; children?: ReactNode }) {
  return (
    <header className="border-b px-4 py-3 md:px-6">
      <div className="flex flex-wrap items-baseline justify-between gap-x-4 gap-y-1">
        <h1 className="text-lg font-semibold">{title}</h1>
        {command && <Copy text={command} />}
      </div>
      {children}
    </header>
  )
}

type Tab<Name extends string> = { name: Name; label: string; count?: number | string }

/** The parts of a page. Each has an address, which `onPick` goes to. */
export function Tabs<Name extends string>({
  label,
  tabs,
  at,
  onPick,
}: {
  label: string
  tabs: readonly Tab<Name>[]
  at: Name
  onPick: (name: Name) => void
}) {
  const nav = useRef<HTMLElement>(null)
  // On a narrow screen the chosen one may be beyond the edge.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it moves when another is chosen
  useEffect(() => {
    nav.current?.querySelector('[aria-current]')?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' })
  }, [at])
  return (
    <nav ref={nav} aria-label={label} className="-mx-1 mt-2 -mb-3 flex overflow-x-auto">
      {tabs.map(tab => (
        <button
          key={tab.name}
          type="button"
          aria-current={tab.name === at ? 'page' : undefined}
          onClick={() => onPick(tab.name)}
          className={cx(
            'border-b-2 px-3 py-1.5 whitespace-nowrap max-md:min-h-11',
            tab.name === at ? 'border-primary font-medium' : 'border-transparent text-muted-fg hover:text-fg',
          )}
        >
          {tab.label}
          {!!tab.count && <span className="ml-1.5 rounded-full bg-muted px-1.5 text-xs tabular-nums">{tab.count}</span>}
        </button>
      ))}
    </nav>
  )
}
