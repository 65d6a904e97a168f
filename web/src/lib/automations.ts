// Automations and runs, which several pages ask.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Json } from '@/api/types'
import { everyPage } from './pages'

/** All but the archived ones. */
export const automationsQuery = queryOptions({
  queryKey: ['automations', 'all'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/automations', { params: { query: { limit: 100, after } } }))),
  staleTime: 30_000,
  retry: false,
})

export const automationQuery = (automation: string) =>
  queryOptions({
    queryKey: ['automations', automation],
    queryFn: () => body(api.GET('/api/v1/automations/{automation}', { params: { path: { automation } } })),
  })

/** The normalised definition of one version. It never changes. */
export const definitionQuery = (automation: string, version: number) =>
  queryOptions({
    queryKey: ['definition', automation, version],
    queryFn: async () =>
      (await body(api.GET('/api/v1/automations/{automation}/export', { params: { path: { automation }, query: { version } } }))) as Json,
    staleTime: Number.POSITIVE_INFINITY,
  })
