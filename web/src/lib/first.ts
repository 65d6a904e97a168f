// A list beside what is open of it: on a wide screen the first one is open from the start; afterwards only the person moves.
import { useEffect, useRef } from 'react'

export function useOpenFirst(isOpen: boolean, first: string | undefined, open: (id: string) => void): void {
  const latest = useRef(open)
  latest.current = open
  useEffect(() => {
    if (!isOpen && first && matchMedia('(min-width: 48rem)').matches) latest.current(first)
  }, [isOpen, first])
}
