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
