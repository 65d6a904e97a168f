// The org's events for every part of the page.
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from 'react'
import type { Live, OrgEvent } from './live'
import { followTogether } from './shared-stream'

type Listener = (event: OrgEvent | 'reset') => void
type Events = { state: Live; pause: (paused: boolean) => void; listen: (listener: Listener) => () => void }

const Context = createContext<Events>({ state: 'connecting', pause: () => {}, listen: () => () => {} })

export function EventsProvider({ children }: { children: ReactNode }) {
  const [state, setState] = useState<Live>('connecting')
  const [paused, setPaused] = useState(false)
  const listeners = useRef(new Set<Listener>())
  const wasPaused = useRef(false)
  useEffect(() => {
    const tell = (event: OrgEvent | 'reset') => {
      for (const listener of listeners.current) listener(event)
    }
    if (paused) {
      wasPaused.current = true
      setState('paused')
      return
    }
    if (wasPaused.current) tell('reset')
    return followTogether({ event: tell, state: setState, reset: () => tell('reset') })
  }, [paused])
  const listen = useCallback((listener: Listener) => {
    listeners.current.add(listener)
    return () => {
      listeners.current.delete(listener)
    }
  }, [])
  const value = useMemo<Events>(() => ({ state, pause: setPaused, listen }), [state, listen])
  return <Context value={value}>{children}</Context>
}

export const useLive = (): Events => useContext(Context)

/** Hears every event while the component is shown; `reset` means that some may have been missed. */
export function useOrgEvents(listener: Listener): void {
  const { listen } = useLive()
  const latest = useRef(listener)
  latest.current = listener
  useEffect(() => listen(event => latest.current(event)), [listen])
}
