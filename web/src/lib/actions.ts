// The catalogue, which several pages ask.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, body } from '@/api/client'

export const actionQuery = (action: string) =>
  queryOptions({
    queryKey: ['action', action],
    queryFn: () => body(api.GET('/api/v1/actions/{action}', { params: { path: { action } } })),
    staleTime: 30_000,
    retry: false,
  })

export const actionsQuery = queryOptions({ queryKey: ['actions'], queryFn: () => body(api.GET('/api/v1/actions')), staleTime: 30_000 })

/** What a field offers that takes an action. */
export const useActionIds = (): string[] =>
  useQuery(actionsQuery).data?.sources.flatMap(source => source.actions.map(action => action.id)) ?? []

export const reviewQuery = (action: string) =>
  queryOptions({
    queryKey: ['review', action],
    queryFn: () => body(api.GET('/api/v1/reviews/{action}', { params: { path: { action } } })),
    retry: false,
  })

/** Accepts a definition. The digest of what was shown travels with the answer. */
export const acceptDefinition = (action: string, textual: string | null | undefined, ignoreWording = false) =>
  body(api.POST('/api/v1/reviews/{action}', { params: { path: { action } }, body: { textual, ignore_wording: ignoreWording } }))
