// The inbox kept up to date: read once, then told by the stream. It lives above the pages, so that every page knows how many wait.
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, type Dispatch, type ReactNode, useCallback, useContext, useEffect, useMemo, useReducer, useRef } from 'react'
import type { Invocation } from '@/api/types'
import { serverNow } from '@/lib/clock'
import { useOrgEvents } from '@/lib/events'
import { useSoon } from '@/lib/soon'
import { EMPTY, mayHaveChanged, type Shelf, type Step, step } from './model'
import { pendingQuery, readInvocation } from './queries'

/** More changes at once than this are read as a list. */
const SINGLE_MAX = 10
const GATHER_MS = 150
/** What the open call would do is looked up again once in this time at most: that may run code, and a busy org does something all the time. */
const AHEAD_MS = 1_000
/** No event names the calls that a change of the rules voids, or whose clock a kill switch stops. */
const RULES = /^(mode|price|policy|action|switch|source|space|crossing|consent|user|connection)\./

type Kept = {
  shelf: Shelf
  dispatch: Dispatch<Step>
  listed: UseQueryResult
  /** Takes over what an answer said of a call. */
  changed: (item: Invocation) => void
  /** Reads one call anew. */
  refresh: (id: string) => Promise<Invocation>
  /** What was put off is back. */
  woken: (id: string) => void
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
      const item = await readInvocation(id)
      changed(item)
      return item
    },
    [changed],
  )

  useEffect(() => {
    if (!listed.data) return
    const { items, isWhole } = listed.data
    const ids = new Set(items.map(item => item.id))
    // What we show as pending and is in no list any more has ended: how, only it can say.
    const { shown, known, snoozed } = latest.current
    const isGone = (id: string) => !ids.has(id) && !snoozed.has(id) && known.get(id)?.status === 'pending'
    if (isWhole) for (const id of shown.filter(isGone)) void refresh(id).catch(() => {})
    dispatch({ kind: 'listed', items, isWhole })
  }, [listed.data, refresh])

  const woken = useCallback(
    (id: string) => {
      dispatch({ kind: 'woken', id })
      void refresh(id).catch(() => {})
      void client.invalidateQueries({ queryKey: ['listed'] })
    },
    [client, refresh],
  )
  // What was put off comes back by itself.
  useEffect(() => {
    const timers = [...shelf.snoozed].map(([id, until]) => setTimeout(() => woken(id), Date.parse(until) - serverNow()))
    return () => {
      for (const timer of timers) clearTimeout(timer)
    }
  }, [shelf.snoozed, woken])

  // Nobody reads a page that is hidden, and a call that has ended would do nothing more.
  const lookAhead = () =>
    client.invalidateQueries({
      queryKey: ['foresight'],
      predicate: ({ queryKey: [, id] }) => (client.getQueryData<Invocation>(['invocation', id])?.status ?? 'pending') === 'pending',
      refetchType: document.hidden ? 'none' : 'active',
    })
  const gathered = useRef(new Set<string>())
  const soon = useSoon(async () => {
    const told = gathered.current
    gathered.current = new Set()
    const isOfRules = told.delete('rules')
    const old = ['listed']
    if (isOfRules) old.push('pending', 'invocation', 'actions', 'switches')
    else if (told.size > SINGLE_MAX) old.push('pending')
    await Promise.all([
      ...old.map(key => client.invalidateQueries({ queryKey: [key] })),
      ...(told.size > SINGLE_MAX ? [] : [...told].map(id => refresh(id).catch(() => {}))),
    ])
    if (isOfRules) await lookAhead()
  }, GATHER_MS)
  // By itself, because it may take long.
  const ahead = useSoon(lookAhead, AHEAD_MS)
  useOrgEvents(event => {
    if (event !== 'reset' && mayHaveChanged(event)) ahead()
    if (event === 'reset' || RULES.test(event.type)) gathered.current.add('rules')
    else if (event.type.startsWith('invocation.')) gathered.current.add(event.subject)
    else return
    soon()
  })
  const value = useMemo(() => ({ shelf, dispatch, listed, changed, refresh, woken }), [shelf, listed, changed, refresh, woken])
  return <Context value={value}>{children}</Context>
}

export function useShelf(): Kept {
  const kept = useContext(Context)
  if (!kept) throw new Error('the shelf is used outside its provider')
  return kept
}
