// What a page shows is read again when the stream tells of a change.
import { useQueryClient } from '@tanstack/react-query'
import { useOrgEvents } from './events'
import { useSoon } from './soon'

const SOON_MS = 150

/** `groups` are the beginnings of names of events, such as `source.`; `keys` are the first words of the queries that are read again. */
export function useRefresh(groups: readonly string[], keys: readonly string[]): void {
  const client = useQueryClient()
  const soon = useSoon(() => Promise.all(keys.map(key => client.invalidateQueries({ queryKey: [key] }))), SOON_MS)
  useOrgEvents(event => {
    if (event === 'reset' || groups.some(group => event.type.startsWith(group))) soon()
  })
}
