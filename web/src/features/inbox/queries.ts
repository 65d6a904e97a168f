// Everything the inbox asks the server.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body, CSRF_HEADER, lastWord } from '@/api/client'
import type { ApproveRequest, Invocation } from '@/api/types'
import { everyPage } from '@/lib/pages'
import { isOfAutomation } from './model'

const page = (query: { status?: Invocation['status']; awake?: boolean; answered?: boolean; after?: string }) =>
  body(api.GET('/api/v1/invocations', { params: { query: { ...query, limit: 100 } } }))

const awake = (after?: string) => page({ status: 'pending', awake: true, after })

type Pending = { items: Invocation[]; isWhole: boolean }

/** All that waits and is not put off, up to 3,000. At first each page is told of before the next is read. */
export const pendingQuery = queryOptions({
  queryKey: ['pending'],
  queryFn: async ({ client, queryKey, signal }): Promise<Pending> => {
    const items: Invocation[] = []
    await everyPage(async after => {
      const got = await awake(after)
      signal.throwIfAborted()
      items.push(...got.items)
      const isFirst = !client.getQueryData<Pending>(queryKey)?.isWhole
      if (isFirst && got.next) client.setQueryData<Pending>(queryKey, { items: [...items], isWhole: false })
      return got
    })
    return { items, isWhole: true }
  },
  staleTime: Number.POSITIVE_INFINITY,
  // What this person put off elsewhere comes back by itself, and no event tells of it.
  refetchInterval: 60_000,
})

/** When a person last decided something, of the newest hundred calls that were decided; null if nobody has. A later call may be decided sooner. */
export const lastDecisionQuery = queryOptions({
  queryKey: ['listed', 'last'],
  queryFn: async () => {
    const { items } = await page({ answered: true })
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

export const decidedQuery = infiniteQueryOptions({
  queryKey: ['listed', 'decided'],
  queryFn: async ({ pageParam }) => {
    let next = pageParam
    const items = await everyPage(async after => {
      const got = await page({ answered: true, after: after ?? pageParam })
      next = got.next ?? undefined
      return { ...got, items: got.items.filter(item => item.status !== 'pending') }
    }, DECIDED_MIN)
    return { items, next }
  },
  initialPageParam: undefined as string | undefined,
  getNextPageParam: ({ next }) => next,
})

async function putOff(): Promise<Invocation[]> {
  const [all, shown] = await Promise.all([everyPage(after => page({ status: 'pending', after })), everyPage(awake)])
  const ids = new Set(shown.map(item => item.id))
  return all.filter(item => !ids.has(item.id))
}

const attention = async (): Promise<Invocation[]> =>
  (await Promise.all([page({ status: 'in_doubt' }).then(({ items }) => items), quarantined()])).flat()

/** What was put off, or what needs a look. */
export const listedQuery = (tab: 'snoozed' | 'attention') =>
  queryOptions({ queryKey: ['listed', tab], queryFn: { snoozed: putOff, attention }[tab] })

export const readInvocation = async (id: string): Promise<Invocation> =>
  (await body(api.GET('/api/v1/invocations/{invocation}', { params: { path: { invocation: id } } }))).invocation

export const invocationQuery = (id: string) => queryOptions({ queryKey: ['invocation', id], queryFn: () => readInvocation(id) })

/** What the server tells of a call whose foresight is not known, as long as it stands as it does. */
export const factsQuery = ({ id, status, approvals }: Invocation) =>
  queryOptions({ queryKey: ['facts', id, status, approvals?.length], queryFn: async () => (await readInvocation(id)).facts ?? [] })

export const foresightQuery = (id: string, binding: string | undefined) =>
  queryOptions({
    queryKey: ['foresight', id, binding],
    queryFn: () => body(api.GET('/api/v1/invocations/{invocation}/foresight', { params: { path: { invocation: id } } })),
    staleTime: 30_000,
    // What happened while the page was hidden is looked up when it is shown again.
    refetchOnWindowFocus: true,
    retry: false,
  })

/**
 * Earlier calls of the same action in the same session, the newest first; of an automation, whose runs have a session each, in all of them.
 * Ids sort by birth, so they are cursors.
 */
export const beforeQuery = (item: Invocation) =>
  queryOptions({
    queryKey: ['before', item.id],
    queryFn: async () => {
      // Each run of an automation has a session of its own.
      const whose = isOfAutomation(item) ? { automation: item.principal.slice('automation:'.length) } : { session: item.session_id }
      const query = { ...whose, action: item.action, after: item.id, limit: 100 }
      const { items } = await body(api.GET('/api/v1/invocations', { params: { query } }))
      return items.filter(other => !other.dry_run && other.completed_at != null)
    },
  })

/** What the rule that always allows an action would have done to recorded calls. */
export const alwaysQuery = (action: string, automation: string | null) =>
  queryOptions({
    queryKey: ['rules', 'what-if', 'always', action, automation],
    queryFn: () =>
      body(
        api.POST('/api/v1/policies/what-if', {
          body: { policies: null, modes: [{ action, mode: 'allow', automation }], last: '7d', action },
        }),
      ),
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
