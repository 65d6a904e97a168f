// The rows. Only those on the screen exist, so thousands scroll as ten do.
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useRef } from 'react'
import type { Invocation } from '@/api/types'
import { DriftMark, StatusBadge, TierBadge } from '@/components/status'
import { cx, Foreign } from '@/components/ui'
import { useNow } from '@/lib/clock'
import { countdown } from '@/lib/format'
import { useNames } from '@/lib/names'
import { closedBecause, isOpen, statusOf, stepOf, titleOf, wentThrough } from './model'

type Props = {
  items: readonly Invocation[]
  selected: string | undefined
  marked: ReadonlySet<string>
  snoozed: ReadonlyMap<string, string>
  onSelect: (id: string) => void
  onMark?: (id: string) => void
  onMove: (by: number) => void
}

const ROW_PX = 80

export function List({ items, selected, marked, snoozed, onSelect, onMark, onMove }: Props) {
  const scroller = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    getItemKey: at => items[at]?.id ?? at,
  })
  const at = items.findIndex(item => item.id === selected)
  // The list follows the keyboard.
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: 'auto' })
  }, [at, rows])
  return (
    <div ref={scroller} className="min-h-0 flex-1 overflow-auto">
      <ul
        aria-label="Calls"
        className="relative"
        style={{ height: rows.getTotalSize() }}
        onKeyDown={event => {
          if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
          event.preventDefault()
          onMove(event.key === 'ArrowDown' ? 1 : -1)
        }}
      >
        {rows.getVirtualItems().map(row => {
          const item = items[row.index]
          if (!item) return null
          return (
            <li
              key={row.key}
              aria-setsize={items.length}
              aria-posinset={row.index + 1}
              className="absolute inset-x-0 top-0"
              style={{ height: row.size, transform: `translateY(${row.start}px)` }}
            >
              <Row
                item={item}
                isSelected={item.id === selected}
                isMarked={marked.has(item.id)}
                isSnoozed={snoozed.has(item.id)}
                onSelect={() => onSelect(item.id)}
                onMark={onMark && (() => onMark(item.id))}
              />
            </li>
          )
        })}
      </ul>
    </div>
  )
}

type RowProps = { item: Invocation; isSelected: boolean; isMarked: boolean; isSnoozed: boolean; onSelect: () => void; onMark?: () => void }

function Row({ item, isSelected, isMarked, isSnoozed, onSelect, onMark }: RowProps) {
  const now = useNow()
  const canHappen = isOpen(item, now) || wentThrough(item)
  const open = isOpen(item, now) && !isSnoozed
  const isDrifted = item.decision.tightened_by?.includes('drift')
  return (
    <div
      className={cx(
        'flex h-full gap-2 border-b border-l-2 px-3',
        isSelected ? 'border-l-primary bg-accent' : 'border-l-transparent hover:bg-muted',
      )}
    >
      {onMark && (
        <input
          type="checkbox"
          aria-label={`Select ${item.action} ${item.id}`}
          checked={isMarked}
          disabled={!open}
          onChange={onMark}
          className="mt-3.5 size-4 shrink-0 accent-primary"
        />
      )}
      <button type="button" aria-current={isSelected ? 'true' : undefined} onClick={onSelect} className="min-w-0 flex-1 py-2.5 text-left">
        <span className="flex items-baseline justify-between gap-2">
          <Foreign text={titleOf(item)} className={cx('truncate font-medium', !open && 'text-muted-fg', !canHappen && 'line-through')} />
          <span className="shrink-0 font-mono text-xs tabular-nums text-muted-fg">
            {item.status === 'pending' &&
              open &&
              (item.clock_stopped ? 'stopped' : item.expires_at ? countdown(item.expires_at, now) : '–')}
          </span>
        </span>
        <span className="flex items-center gap-2 text-xs text-muted-fg">
          <TierBadge tier={item.tier} />
          <Foreign text={item.session_title || item.principal} className="truncate" />
          {isDrifted && <DriftMark />}
        </span>
        <span className="block truncate text-xs text-muted-fg">
          {open ? (
            item.reason && <Foreign text={stepOf(item) ? item.reason : `“${item.reason}”`} />
          ) : isSnoozed && item.status === 'pending' ? (
            'Later'
          ) : (
            <Closed item={item} now={now} />
          )}
        </span>
      </button>
    </div>
  )
}

function Closed({ item, now }: { item: Invocation; now: number }) {
  const nameOf = useNames()
  return (
    <span className="inline-flex min-w-0 items-center gap-2">
      <StatusBadge status={statusOf(item, now)} brief />
      <span className="truncate">{closedBecause(item, now, nameOf)}</span>
    </span>
  )
}
