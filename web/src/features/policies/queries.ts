// Everything the pages of the rules ask the server.
import { infiniteQueryOptions, type QueryClient, queryOptions, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import { api, body } from '@/api/client'
import type { Invocation, Mode, Schemas } from '@/api/types'
import { useOrgEvents } from '@/lib/events'
import { everyPage } from '@/lib/pages'
import { useRefresh } from '@/lib/refresh'
import { useSoon } from '@/lib/soon'
import { isSame } from './model'

/** Which event makes which queries old. The catalogue and the kill switches are read again for all pages, with the inbox. */
const OLD: readonly (readonly [string, readonly string[]])[] = [
  ['mode.', ['modes', 'mode-versions', 'available', 'what-if', 'explain']],
  ['policy.', ['policies', 'policy-versions', 'available', 'what-if', 'explain']],
  ['grant.', ['grants', 'grant', 'explain']],
  ['switch.', ['available', 'explain']],
  ['space.', ['spaces', 'space', 'observed', 'available', 'explain']],
  ['crossing.', ['crossings', 'explain']],
  ['consent.', ['consents', 'explain']],
  ['session.', ['sessions', 'session']],
  ['source.', ['available']],
  ['action.', ['available']],
  ['invocation.', ['grants', 'grant', 'observed', 'pending-calls', 'session-calls']],
]
/** Many calls may end at once: what they make old is read once. */
const SOON_MS = 400

/** Reads what is shown again when the stream tells that it has changed. */
export function useRulesLive(): void {
  const client = useQueryClient()
  useRefresh(['user.'], ['users'])
  const old = useRef(new Set<string>())
  const soon = useSoon(async () => {
    const keys = [...old.current]
    old.current.clear()
    await Promise.all(keys.map(key => client.invalidateQueries({ queryKey: ['rules', key] })))
  }, SOON_MS)
  useOrgEvents(event => {
    for (const [start, keys] of OLD) {
      if (event === 'reset' || event.type.startsWith(start)) for (const key of keys) old.current.add(key)
    }
    if (old.current.size > 0) soon()
  })
}

/** A change of ours may touch any of them. */
export const changed = (client: QueryClient): Promise<void> => client.invalidateQueries()

export const modesQuery = queryOptions({
  queryKey: ['rules', 'modes'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/modes', { params: { query: { limit: 100, after } } }))),
})

export const modeVersionsQuery = (action: string) =>
  queryOptions({
    queryKey: ['rules', 'mode-versions', action],
    queryFn: () => body(api.GET('/api/v1/modes/versions', { params: { query: { action, limit: 10 } } })),
  })

/** The actions with the modes they have in a session. */
export const availableQuery = (session: string | undefined) =>
  queryOptions({
    queryKey: ['rules', 'available', session],
    enabled: !!session,
    queryFn: () => body(api.GET('/api/v1/sessions/{session}/actions/available', { params: { path: { session: session ?? '' } } })),
  })

/** Sets a mode, or removes it where there is none. */
export function setMode(action: string, automation: string | undefined, mode: Mode | undefined, locked: boolean) {
  if (automation) {
    const params = { path: { automation, action } }
    return mode
      ? body(api.PUT('/api/v1/automations/{automation}/modes/{action}', { params, body: { mode, locked } }))
      : body(api.DELETE('/api/v1/automations/{automation}/modes/{action}', { params }))
  }
  const params = { path: { action } }
  return mode
    ? body(api.PUT('/api/v1/modes/{action}', { params, body: { mode, locked } }))
    : body(api.DELETE('/api/v1/modes/{action}', { params }))
}

export const policiesQuery = queryOptions({ queryKey: ['rules', 'policies'], queryFn: () => body(api.GET('/api/v1/policies')) })

export const policyVersionsQuery = infiniteQueryOptions({
  queryKey: ['rules', 'policy-versions'],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => body(api.GET('/api/v1/policies/versions', { params: { query: { limit: 20, after: pageParam } } })),
  getNextPageParam: page => page.next ?? undefined,
})

export const policySchemaQuery = queryOptions({
  queryKey: ['rules', 'policy-schema'],
  queryFn: () => body(api.GET('/api/v1/policies/schema')),
  staleTime: 60_000,
})

/** What is wrong with policies; a refusal is the answer, not a failure. */
export const policyCheckQuery = (texts: Schemas['PoliciesFile'] | undefined) =>
  queryOptions({
    queryKey: ['rules', 'policy-check', texts],
    enabled: !!texts,
    queryFn: () => checkPolicies(texts as Schemas['PoliciesFile']),
    staleTime: 60_000,
    retry: false,
  })

const checkPolicies = (texts: Schemas['PoliciesFile']) => body(api.POST('/api/v1/policies/check', { body: texts }))

/** Sets all policies; refused here if others were set since the draft was begun, and nobody has seen them. */
export async function setPolicies(texts: Schemas['PoliciesFile'], seen: Schemas['PoliciesView']) {
  const now = await body(api.GET('/api/v1/policies'))
  if (now.version !== seen.version && !isSame(now.policies, seen.policies)) return { now }
  return { set: await body(api.PUT('/api/v1/policies', { body: texts })) }
}

export type Proposal = { policies: Schemas['PoliciesFile'] | null; modes: Schemas['ModeLine'][] | null; last: string | null }

export const whatIfQuery = (proposal: Proposal | undefined) =>
  queryOptions({
    queryKey: ['rules', 'what-if', proposal],
    enabled: !!proposal,
    queryFn: () => body(api.POST('/api/v1/policies/what-if', { body: { ...(proposal as Proposal), action: null } })),
    staleTime: 30_000,
    retry: false,
  })

export const readCall = async (id: string): Promise<Invocation> =>
  (await body(api.GET('/api/v1/invocations/{invocation}', { params: { path: { invocation: id } } }))).invocation

export type GrantFilter = { state?: Schemas['GrantStateName']; session?: string }

export const grantsQuery = (filter: GrantFilter) =>
  infiniteQueryOptions({
    queryKey: ['rules', 'grants', filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(api.GET('/api/v1/grants', { params: { query: { ...filter, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
  })

export const grantQuery = (grant: string) =>
  queryOptions({
    queryKey: ['rules', 'grant', grant],
    queryFn: () => body(api.GET('/api/v1/grants/{grant}', { params: { path: { grant } } })),
  })

export const giveGrant = (grant: Schemas['NewGrantRequest']) => body(api.POST('/api/v1/grants', { body: grant }))

export type GrantVerb = 'approve' | 'refuse' | 'revoke'
export function endGrant(grant: string, verb: GrantVerb): Promise<Schemas['GrantView']> {
  const params = { path: { grant } }
  if (verb === 'approve') return body(api.POST('/api/v1/grants/{grant}/approve', { params }))
  if (verb === 'refuse') return body(api.POST('/api/v1/grants/{grant}/refuse', { params }))
  return body(api.DELETE('/api/v1/grants/{grant}', { params }))
}

export const consentsQuery = infiniteQueryOptions({
  queryKey: ['rules', 'consents'],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => body(api.GET('/api/v1/consents', { params: { query: { limit: 50, after: pageParam } } })),
  getNextPageParam: page => page.next ?? undefined,
})
export const giveConsent = (consent: Schemas['NewConsentRequest']) => body(api.POST('/api/v1/consents', { body: consent }))
export const withdrawConsent = (consent: string) => body(api.DELETE('/api/v1/consents/{consent}', { params: { path: { consent } } }))

export const spaceQuery = (space: string) =>
  queryOptions({
    queryKey: ['rules', 'space', space],
    queryFn: () => body(api.GET('/api/v1/spaces/{space}', { params: { path: { space } } })),
  })
export const createSpace = (name: string) => body(api.POST('/api/v1/spaces', { body: { name } }))
export const changeSpace = (space: string, change: Schemas['ChangeSpaceRequest']) =>
  body(api.PATCH('/api/v1/spaces/{space}', { params: { path: { space } }, body: change }))
export const addMember = (space: string, user: string) =>
  body(api.POST('/api/v1/spaces/{space}/members', { params: { path: { space } }, body: { user_id: user } }))
export const removeMember = (space: string, user: string) =>
  body(api.DELETE('/api/v1/spaces/{space}/members/{user}', { params: { path: { space, user } } }))
export const openSpace = (space: string) => body(api.DELETE('/api/v1/spaces/{space}/members', { params: { path: { space } } }))

export const crossingsQuery = queryOptions({ queryKey: ['rules', 'crossings'], queryFn: () => body(api.GET('/api/v1/crossings')) })
export const setCrossing = (crossing: Schemas['CrossingRequest'], isAllowed: boolean) =>
  isAllowed ? body(api.POST('/api/v1/crossings', { body: crossing })) : body(api.DELETE('/api/v1/crossings', { body: crossing }))

export const observedQuery = (space: string | undefined, since: string) =>
  queryOptions({
    queryKey: ['rules', 'observed', space, since],
    enabled: !!space,
    queryFn: () => body(api.GET('/api/v1/spaces/{space}/observed', { params: { path: { space: space ?? '' }, query: { since } } })),
    retry: false,
  })

/** The same key as the banner of the shell. */
export const switchesQuery = queryOptions({ queryKey: ['switches'], queryFn: () => body(api.GET('/api/v1/kill-switches')), retry: false })
export const switchOn = (request: Schemas['SwitchOnRequest']) => body(api.POST('/api/v1/kill-switches/on', { body: request }))
export const switchOff = (scope: string, reason: string | undefined) =>
  body(api.POST('/api/v1/kill-switches/off', { body: { scope, reason } }))

export const sessionQuery = (session: string | undefined) =>
  queryOptions({
    queryKey: ['rules', 'session', session],
    enabled: !!session,
    queryFn: () => body(api.GET('/api/v1/sessions/{session}', { params: { path: { session: session ?? '' } } })),
    retry: false,
  })
export const endSession = (session: string) => body(api.POST('/api/v1/sessions/{session}/end', { params: { path: { session } } }))

/** What waits for a person: of one session, or of all. */
export const pendingCallsQuery = (session?: string) =>
  queryOptions({
    queryKey: ['rules', 'pending-calls', session],
    queryFn: () =>
      everyPage(after => body(api.GET('/api/v1/invocations', { params: { query: { status: 'pending', session, limit: 100, after } } }))),
  })
export const sessionCallsQuery = (session: string) =>
  queryOptions({
    queryKey: ['rules', 'session-calls', session],
    queryFn: () => body(api.GET('/api/v1/invocations', { params: { query: { session, limit: 20, count: true } } })),
  })
export const denyCall = (id: string, reason: string | undefined) =>
  body(api.POST('/api/v1/invocations/{invocation}/deny', { params: { path: { invocation: id } }, body: { reason } }))
