// Rows stay where they are: what happened meanwhile waits behind a button.
import { useState } from 'react'
import { useOrgEvents } from '@/lib/events'
import type { OrgEvent } from '@/lib/live'
import { Button } from './ui'

/** Its `key` is the filter of the list: what was news of one list is none of another. */
export function Fresh({ isNews, read }: { isNews: (event: OrgEvent) => boolean; read: () => void }) {
  const [fresh, setFresh] = useState(false)
  useOrgEvents(event => setFresh(old => old || (event !== 'reset' && isNews(event))))
  if (!fresh) return null
  return (
    <Button
      look="quiet"
      className="rounded-none border-b text-primary"
      onClick={() => {
        setFresh(false)
        read()
      }}
    >
      <span aria-live="polite">Something changed. Read it again</span>
    </Button>
  )
}
