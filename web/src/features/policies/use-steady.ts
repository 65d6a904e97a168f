// Rows stay where they are while somebody looks; what is new waits behind a button, and what has left the list stays in grey.
import { useState } from 'react'
import { steady } from './model'

type Kept<T> = { of: string; rows: readonly T[] }

/** `of` says which list it is: another filter begins anew. */
export function useSteady<T extends { id: string }>(listed: readonly T[] | undefined, of: string) {
  const [kept, setKept] = useState<Kept<T>>({ of, rows: [] })
  const shown = kept.of === of ? kept.rows : []
  const now = new Map(listed?.map(item => [item.id, item]))
  const { rows, fresh } = steady(
    shown.map(item => item.id),
    listed?.map(item => item.id) ?? [],
  )
  const before = new Map(shown.map(item => [item.id, item]))
  const items = rows.flatMap(id => now.get(id) ?? before.get(id) ?? [])
  // Set while rendering: the rows of the first answer are those that stay.
  if (listed && (kept.of !== of || items.length !== shown.length || items.some((item, at) => item !== shown[at]))) {
    setKept({ of, rows: items })
  }
  return {
    items,
    isGone: (id: string) => !!listed && !now.has(id),
    fresh: fresh + (listed ? items.filter(item => !now.has(item.id)).length : 0),
    show: () => setKept({ of, rows: [] }),
  }
}
