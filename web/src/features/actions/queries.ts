import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Json, Schemas } from '@/api/types'

export const statsQuery = (action: string) =>
  queryOptions({
    queryKey: ['stats', action],
    queryFn: () => body(api.GET('/api/v1/actions/{action}/stats', { params: { path: { action } } })),
    retry: false,
  })

/** A person tries actions in a session of their own, opened when the first is tried. */
let session: Promise<string> | undefined
const ownSession = (): Promise<string> => {
  session ??= body(api.POST('/api/v1/sessions', { body: { title: 'Tried in the web UI' } })).then(
    made => made.id,
    (cause: unknown) => {
      session = undefined
      throw cause
    },
  )
  return session
}

export async function tryOut(action: string, params: Json, isDryRun: boolean): Promise<Schemas['InvokeResponse']> {
  const path = { session: await ownSession() }
  return (await body(
    api.POST('/api/v1/sessions/{session}/actions/invoke', { params: { path }, body: { action, params, dry_run: isDryRun } }),
  )) as Schemas['InvokeResponse']
}
