// A person makes calls in a session of their own, opened when the first is made.
import { api, body } from '@/api/client'

let session: Promise<string> | undefined

export function ownSession(): Promise<string> {
  session ??= body(api.POST('/api/v1/sessions', { body: { title: 'Tried in the web UI' } })).then(
    made => made.id,
    (cause: unknown) => {
      session = undefined
      throw cause
    },
  )
  return session
}
