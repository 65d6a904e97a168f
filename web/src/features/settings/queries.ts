// Everything the settings ask the server.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'
import { everyPage } from '@/lib/pages'

export type User = Schemas['UserView']
export type Token = Schemas['TokenView']
export type Channel = Schemas['ChannelView']
export type ChannelKind = Schemas['ChannelKindView']
export type Package = Schemas['PackageView']
export type Retention = Schemas['Retention']
export type Role = Schemas['Role']
export type Allowed = Schemas['AllowedView']
export type AllowedList = 'hosts' | 'networks' | 'commands'

const query = (after: string | undefined) => ({ params: { query: { limit: 100, after } } })

export const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/tokens', query(after)))),
})
export const packagesQuery = queryOptions({
  queryKey: ['packages'],
  queryFn: async () => (await body(api.GET('/api/v1/packages'))).items,
})
export const packageQuery = (name: string) =>
  queryOptions({
    queryKey: ['package', name],
    queryFn: () => body(api.GET('/api/v1/packages/{name}', { params: { path: { name } } })),
  })
export const retentionQuery = queryOptions({ queryKey: ['retention'], queryFn: () => body(api.GET('/api/v1/retention')) })

export const allowedQuery = (list: AllowedList) =>
  queryOptions({
    queryKey: ['allowed', list],
    queryFn: async () => (await body(api.GET('/api/v1/allowed/{list}', { params: { path: { list } } }))).items,
    // Whoever is no operator may not read it, and asking again changes nothing.
    retry: false,
  })
export const addAllowed = (list: AllowedList, request: Schemas['NewAllowedRequest']) =>
  body(api.POST('/api/v1/allowed/{list}', { params: { path: { list } }, body: request }))
export const removeAllowed = (list: AllowedList, entry: string) =>
  body(api.DELETE('/api/v1/allowed/{list}/{entry}', { params: { path: { list, entry } } }))

export const addUser = (name: string, role: Role) => body(api.POST('/api/v1/users', { body: { name, role } }))
export const inviteUser = (user: string) => body(api.POST('/api/v1/users/{user}/invite', { params: { path: { user } }, body: {} }))
export const changeUser = (user: string, change: Schemas['ChangeUserRequest']) =>
  body(api.PATCH('/api/v1/users/{user}', { params: { path: { user } }, body: change }))
export const disableUser = (user: string) => body(api.POST('/api/v1/users/{user}/disable', { params: { path: { user } } }))

export const addToken = (request: Schemas['NewTokenRequest']) => body(api.POST('/api/v1/tokens', { body: request }))
export const revokeToken = (token: string) => body(api.POST('/api/v1/tokens/{token}/revoke', { params: { path: { token } } }))

export const channelKindsQuery = queryOptions({
  queryKey: ['channel-kinds'],
  queryFn: async () => (await body(api.GET('/api/v1/channel-kinds'))).items,
  staleTime: Number.POSITIVE_INFINITY,
})
export const addChannel = (request: Schemas['NewChannelRequest']) => body(api.POST('/api/v1/channels', { body: request }))
export const testChannel = (channel: string) => body(api.POST('/api/v1/channels/{channel}/test', { params: { path: { channel } } }))
export const removeChannel = (channel: string) => body(api.DELETE('/api/v1/channels/{channel}', { params: { path: { channel } } }))

export const removePackage = (name: string) => body(api.DELETE('/api/v1/packages/{name}', { params: { path: { name } } }))
export const setRetention = (retention: Retention) => body(api.PUT('/api/v1/retention', { body: retention }))

/** The notices that a channel did not take. No event tells of them, so they are read again now and then. */
export const deadNoticesQuery = (channel: string) =>
  infiniteQueryOptions({
    queryKey: ['dead', 'notices', channel],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      body(api.GET('/api/v1/deliveries', { params: { query: { state: 'dead', channel, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
    refetchInterval: 15_000,
  })

/** Without a delivery: all dead letters of the channel. */
export const retryNotices = (channel: string, delivery?: string) =>
  body(api.POST('/api/v1/channels/{channel}/retry', { params: { path: { channel } }, body: { delivery } }))
export const dropNotices = (channel: string, delivery?: string) =>
  body(api.POST('/api/v1/channels/{channel}/drop', { params: { path: { channel } }, body: { delivery } }))
