// Everything the inbox asks the server.
import { queryOptions } from '@tanstack/react-query'
import { api, body, CSRF_HEADER, lastWord } from '@/api/client'
import type { ApproveRequest, Invocation } from '@/api/types'
import { everyPage } from '@/lib/pages'

const page = (query: { status?: Invocation['status']; awake?: boolean; after?: string }) =>
  body(api.GET('/api/v1/invocations', { params: { query: { ...query, limit: 100 } } }))

/** All that waits and is not put off, up to 3,000. */
export const pending = (): Promise<Invocation[]> => everyPage(after => page({ status: 'pending', awake: true, after }))

export const pendingQuery = queryOptions({
  queryKey: ['pending'],
  queryFn: pending,
  staleTime: Number.POSITIVE_INFINITY,
  // What this person put off elsewhere comes back by itself, and no event tells of it.
  refetchInterval: 60_000,
})

/** When a person last decided something, of the newest hundred calls; null if nobody has. A call that was made later may be decided sooner. */
export const lastDecisionQuery = queryOptions({
  queryKey: ['listed', 'last'],
  queryFn: async () => {
    const { items } = await page({})
    return items.flatMap(item => item.answer?.at ?? []).reduce<string | null>((last, at) => (last && last > at ? last : at), null)
  },
})

/** The calls of which something is held in quarantine: their params, or what came back. One that cannot be read does not hide the others. */
async function quarantined(): Promise<Invocation[]> {
  const { items } = await body(api.GET('/api/v1/quarantines', { params: { query: { state: 'held', limit: 50 } } }))
  const read = await Promise.allSettled(items.map(held => readInvocation(held.invocation_id)))
  return read.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
}

/** As many are shown as decided, if there are: those that wait may be newer than all of them. */
const DECIDED_MIN = 50

async function decided(): Promise<Invocation[]> {
  return everyPage(async after => {
    const { items, next } = await page({ after })
    return { items: items.filter(item => item.status !== 'pending'), next }
  }, DECIDED_MIN)
}

async function putOff(): Promise<Invocation[]> {
  const [all, awake] = await Promise.all([everyPage(after => page({ status: 'pending', after })), pending()])
  const ids = new Set(awake.map(item => item.id))
  return all.filter(item => !ids.has(item.id))
}

const attention = async (): Promise<Invocation[]> =>
  (await Promise.all([page({ status: 'in_doubt' }).then(({ items }) => items), quarantined()])).flat()

/** What was put off, what was decided lately, or what needs a look. */
export const listedQuery = (tab: 'snoozed' | 'decided' | 'attention') =>
  queryOptions({ queryKey: ['listed', tab], queryFn: { snoozed: putOff, decided, attention }[tab] })

export const readInvocation = async (id: string): Promise<Invocation> =>
  (await body(api.GET('/api/v1/invocations/{invocation}', { params: { path: { invocation: id } } }))).invocation

export const invocationQuery = (id: string) => queryOptions({ queryKey: ['invocation', id], queryFn: () => readInvocation(id) })

export const foresightQuery = (id: string, binding: string | undefined) =>
  queryOptions({
    queryKey: ['foresight', id, binding],
    queryFn: () => body(api.GET('/api/v1/invocations/{invocation}/foresight', { params: { path: { invocation: id } } })),
    staleTime: 30_000,
    // What happened while the page was hidden is looked up when it is shown again.
    refetchOnWindowFocus: true,
    retry: false,
  })

/** Earlier calls of the same action in the same session, the newest first. Ids sort by birth, so they are cursors. */
export const beforeQuery = (item: Invocation) =>
  queryOptions({
    queryKey: ['before', item.id],
    queryFn: async () => {
      const query = { session: item.session_id, action: item.action, after: item.id, limit: 100 }
      const { items } = await body(api.GET('/api/v1/invocations', { params: { query } }))
      return items.filter(other => !other.dry_run && other.completed_at != null)
    },
  })

/** What the rule that always allows an action would have done to recorded calls. */
export const alwaysQuery = (action: string, automation: string | null) =>
  queryOptions({
    queryKey: ['rules', 'what-if', 'always', action, automation],
    queryFn: () =>
      body(api.POST('/api/v1/policies/what-if', { body: { policies: null, modes: [{ action, mode: 'allow', automation }], last: '7d' } })),
    retry: false,
  })

export const sessionQuery = (session: string) =>
  queryOptions({
    queryKey: ['session', session],
    queryFn: () => body(api.GET('/api/v1/sessions/{session}', { params: { path: { session } } })),
    staleTime: 60_000,
    retry: false,
  })

/** The digest of what was shown travels with the answer: if the call changed meanwhile, the server refuses it. */
export const approve = (item: Invocation, more: ApproveRequest = {}) =>
  body(
    api.POST('/api/v1/invocations/{invocation}/approve', {
      params: { path: { invocation: item.id } },
      body: { binding: item.binding?.digest, ...more },
    }),
  )

export const approveMany = (items: readonly Invocation[], reason?: string) =>
  body(
    api.POST('/api/v1/invocations/approve', {
      body: { invocations: items.map(item => (item.binding ? { id: item.id, binding: item.binding.digest } : item.id)), reason },
    }),
  )

export const deny = (id: string, reason?: string) =>
  body(api.POST('/api/v1/invocations/{invocation}/deny', { params: { path: { invocation: id } }, body: { reason } }))

/** The page is being left: what the person decided is sent all the same, at once and without waiting for anything. */
export const denyOnLeaving: typeof deny = (id, reason) =>
  body(
    fetch(`/api/v1/invocations/${encodeURIComponent(id)}/deny`, {
      method: 'POST',
      keepalive: true,
      headers: { 'content-type': 'application/json', [CSRF_HEADER]: lastWord() },
      body: JSON.stringify({ reason }),
    }).then(async response => ({ [response.ok ? 'data' : 'error']: await response.json(), response })),
  )

export const snooze = (id: string, time: string) =>
  body(api.POST('/api/v1/invocations/{invocation}/snooze', { params: { path: { invocation: id } }, body: { for: time } }))

export const settle = (id: string, as: 'succeeded' | 'failed' | 'retry', reason: string) =>
  body(api.POST('/api/v1/invocations/{invocation}/settle', { params: { path: { invocation: id } }, body: { as, reason } }))
