import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Json, Schemas } from '@/api/types'
import { inOwnSession } from '@/lib/own-session'

export const statsQuery = (action: string) =>
  queryOptions({
    queryKey: ['stats', action],
    queryFn: () => body(api.GET('/api/v1/actions/{action}/stats', { params: { path: { action } } })),
    retry: false,
  })

export const tryOut = (action: string, params: Json, isDryRun: boolean): Promise<Schemas['InvokeResponse']> =>
  inOwnSession(async session => {
    const made = api.POST('/api/v1/sessions/{session}/actions/invoke', {
      params: { path: { session } },
      body: { action, params, dry_run: isDryRun },
    })
    return (await body(made)) as Schemas['InvokeResponse']
  })
