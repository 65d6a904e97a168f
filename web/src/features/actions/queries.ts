import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Json, Schemas } from '@/api/types'
import { ownSession } from '@/lib/own-session'

export const statsQuery = (action: string) =>
  queryOptions({
    queryKey: ['stats', action],
    queryFn: () => body(api.GET('/api/v1/actions/{action}/stats', { params: { path: { action } } })),
    retry: false,
  })

export async function tryOut(action: string, params: Json, isDryRun: boolean): Promise<Schemas['InvokeResponse']> {
  const path = { session: await ownSession() }
  return (await body(
    api.POST('/api/v1/sessions/{session}/actions/invoke', { params: { path }, body: { action, params, dry_run: isDryRun } }),
  )) as Schemas['InvokeResponse']
}
