// The catalogue, which several pages ask.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'

export const actionQuery = (action: string) =>
  queryOptions({
    queryKey: ['action', action],
    queryFn: () => body(api.GET('/api/v1/actions/{action}', { params: { path: { action } } })),
    staleTime: 30_000,
    retry: false,
  })

export const actionsQuery = queryOptions({ queryKey: ['actions'], queryFn: () => body(api.GET('/api/v1/actions')), staleTime: 30_000 })

export const reviewQuery = (action: string) =>
  queryOptions({
    queryKey: ['review', action],
    queryFn: () => body(api.GET('/api/v1/reviews/{action}', { params: { path: { action } } })),
    retry: false,
  })

/** Accepts a definition. The digest of what was shown travels with the answer. */
export const acceptDefinition = (action: string, textual: string | null | undefined, ignoreWording = false) =>
  body(api.POST('/api/v1/reviews/{action}', { params: { path: { action } }, body: { textual, ignore_wording: ignoreWording } }))
