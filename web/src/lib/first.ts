// A list beside what is open of it: on a wide screen the first one is open from the start; afterwards only the person moves, and closes.
import { useEffect, useRef } from 'react'

/** `list` names the list, where the page has several. */
export function useOpenFirst(isOpen: boolean, first: string | undefined, open: (id: string) => void, list = ''): void {
  const latest = useRef(open)
  latest.current = open
  const opened = useRef<string>(undefined)
  useEffect(() => {
    if (isOpen) opened.current = list
    else if (first && opened.current !== list && matchMedia('(min-width: 64rem)').matches) latest.current(first)
  }, [isOpen, first, list])
}
