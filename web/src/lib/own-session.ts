// A person makes calls in a session of their own, opened when the first is made.
import { ApiError, api, body } from '@/api/client'
import type { Problem } from '@/api/types'

/** What is refused so was not done, and another session may take it. */
const OF_SESSION: readonly Problem['code'][] = ['session_ended', 'unknown_session', 'not_your_session', 'too_many_pending']

let session: Promise<string> | undefined

/** Acts in that session. One that has ended or is full is forgotten, and a new one is tried, once. */
export async function inOwnSession<T>(act: (session: string) => Promise<T>): Promise<T> {
  const used = ownSession()
  try {
    return await act(await used)
  } catch (cause) {
    if (!(cause instanceof ApiError && OF_SESSION.includes(cause.problem.code))) throw cause
    // Another call may have opened a new one meanwhile.
    if (session === used) session = undefined
    return act(await ownSession())
  }
}

function ownSession(): Promise<string> {
  session ??= body(api.POST('/api/v1/sessions', { body: { title: 'Tried in the web UI' } })).then(
    made => made.id,
    (cause: unknown) => {
      session = undefined
      throw cause
    },
  )
  return session
}
