// The inbox kept up to date: read once, then told by the stream. It lives above the pages, so that every page knows how many wait.
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, type Dispatch, type ReactNode, useCallback, useContext, useEffect, useMemo, useReducer, useRef } from 'react'
import type { Invocation } from '@/api/types'
import { useOrgEvents } from '@/lib/events'
import { EMPTY, type Shelf, type Step, step } from './model'
import { pendingQuery, readInvocation } from './queries'

/** More changes at once than this are read as a list. */
const SINGLE_MAX = 10
const GATHER_MS = 150

type Kept = {
  shelf: Shelf
  dispatch: Dispatch<Step>
  listed: UseQueryResult<Invocation[]>
  /** Takes over what an answer said of a call. */
  changed: (item: Invocation) => void
  /** Reads one call anew. */
  refresh: (id: string) => Promise<void>
}

const Context = createContext<Kept | undefined>(undefined)

export function ShelfProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient()
  const listed = useQuery(pendingQuery)
  const [shelf, dispatch] = useReducer(step, EMPTY)
  const latest = useRef(shelf)
  latest.current = shelf

  const changed = useCallback(
    (item: Invocation) => {
      dispatch({ kind: 'changed', item })
      client.setQueryData(['invocation', item.id], item)
    },
    [client],
  )
  const refresh = useCallback(
    async (id: string) => {
      changed(await readInvocation(id))
    },
    [changed],
  )

  useEffect(() => {
    if (!listed.data) return
    const ids = new Set(listed.data.map(item => item.id))
    // What we show as pending and is in no list any more has ended: how, only it can say.
    const { shown, known, snoozed } = latest.current
    for (const id of shown) if (!ids.has(id) && !snoozed.has(id) && known.get(id)?.status === 'pending') void refresh(id).catch(() => {})
    dispatch({ kind: 'listed', items: listed.data })
  }, [listed.data, refresh])

  const gathered = useRef(new Set<string>())
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useOrgEvents(event => {
    if (event === 'reset') gathered.current.add('*')
    else if (event.type.startsWith('invocation.')) gathered.current.add(event.subject)
    else if (/^(mode|policy|action|switch|source)\./.test(event.type)) gathered.current.add('rules')
    else return
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      const told = gathered.current
      gathered.current = new Set()
      // What is shown of a pending call may no longer hold.
      if (told.delete('rules')) for (const key of ['foresight', 'actions']) void client.invalidateQueries({ queryKey: [key] })
      if (told.has('*') || told.size > SINGLE_MAX) void client.invalidateQueries({ queryKey: ['pending'] })
      else for (const id of told) void refresh(id).catch(() => {})
      void client.invalidateQueries({ queryKey: ['listed'] })
    }, GATHER_MS)
  })
  const value = useMemo(() => ({ shelf, dispatch, listed, changed, refresh }), [shelf, listed, changed, refresh])
  return <Context value={value}>{children}</Context>
}

export function useShelf(): Kept {
  const kept = useContext(Context)
  if (!kept) throw new Error('the shelf is used outside its provider')
  return kept
}
