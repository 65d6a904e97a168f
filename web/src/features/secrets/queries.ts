// Everything that is asked about secrets and connections. No answer has a value in it.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'
import { everyPage } from '@/lib/pages'

export type Secret = Schemas['SecretView']
export type Connection = Schemas['ConnectionView']

export const secretsQuery = queryOptions({
  queryKey: ['secrets'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/secrets', { params: { query: { limit: 100, after } } }))),
})

export const usedByQuery = (secret: string) =>
  queryOptions({
    queryKey: ['used-by', secret],
    queryFn: async () => (await body(api.GET('/api/v1/secrets/{secret}/used-by', { params: { path: { secret } } }))).items,
  })

export const connectionsQuery = queryOptions({
  queryKey: ['connections'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/connections', { params: { query: { limit: 100, after } } }))),
})

/** One by its name or its id, also after it was removed: receipts name it. */
export const connectionQuery = (connection: string) =>
  queryOptions({
    queryKey: ['connections', connection],
    queryFn: () => body(api.GET('/api/v1/connections/{connection}', { params: { path: { connection } } })),
    retry: false,
  })

/** How the last login stands; looked at again and again while somebody is logging in. */
export const loginQuery = (connection: string, isOpen: boolean) =>
  queryOptions({
    queryKey: ['login', connection],
    queryFn: () => body(api.GET('/api/v1/connections/{connection}/login', { params: { path: { connection } } })),
    enabled: isOpen,
    retry: false,
    refetchInterval: query => (isOpen && (query.state.data?.status ?? 'open') === 'open' ? 2_000 : false),
  })

export const setSecret = (secret: string, request: Schemas['SetSecretRequest']) =>
  body(api.PUT('/api/v1/secrets/{secret}', { params: { path: { secret } }, body: request }))

export async function deleteSecret(secret: string): Promise<void> {
  await body(api.DELETE('/api/v1/secrets/{secret}', { params: { path: { secret } } }))
}

export const makeConnection = (request: Schemas['NewConnectionRequest']) => body(api.POST('/api/v1/connections', { body: request }))

export async function removeConnection(connection: string): Promise<void> {
  await body(api.DELETE('/api/v1/connections/{connection}', { params: { path: { connection } } }))
}

export const testConnection = (connection: string) =>
  body(api.POST('/api/v1/connections/{connection}/test', { params: { path: { connection } } }))

export const startLogin = (connection: string) =>
  body(api.POST('/api/v1/connections/{connection}/login', { params: { path: { connection } } }))
