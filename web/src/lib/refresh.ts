// What a page shows is read again when the stream tells of a change.
import { type QueryKey, useQueryClient } from '@tanstack/react-query'
import { useOrgEvents } from './events'
import type { OrgEvent } from './live'
import { useSoon } from './soon'

/** What an event tells of may be stored a moment later. */
const SOON_MS = 150

/** Reads these queries again after each event that is news to them. */
export function useReadAgain(isNews: (event: OrgEvent) => boolean, keys: readonly QueryKey[]): void {
  const client = useQueryClient()
  const soon = useSoon(() => Promise.all(keys.map(queryKey => client.invalidateQueries({ queryKey }))), SOON_MS)
  useOrgEvents(event => {
    if (event === 'reset' || isNews(event)) soon()
  })
}

/** `groups` are the beginnings of names of events, such as `source.`; `keys` are the first words of the queries that are read again. */
export function useRefresh(groups: readonly string[], keys: readonly string[]): void {
  useReadAgain(
    event => groups.some(group => event.type.startsWith(group)),
    keys.map(key => [key]),
  )
}
