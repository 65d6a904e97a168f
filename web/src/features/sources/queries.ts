// Everything that is asked about sources.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'
import { everyPage } from '@/lib/pages'

export type AddedSource = Schemas['AddedSourceView']

export const sourcesQuery = queryOptions({
  queryKey: ['sources'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/sources', { params: { query: { limit: 100, after } } }))),
})

/** One of them, also after it was removed. */
export const sourceQuery = (source: string) =>
  queryOptions({
    queryKey: ['sources', source],
    queryFn: () => body(api.GET('/api/v1/sources/{source}', { params: { path: { source } } })),
    retry: false,
  })

export const driftQuery = (source: string) =>
  queryOptions({
    queryKey: ['drift', source],
    queryFn: async () => (await body(api.GET('/api/v1/sources/{source}/drift', { params: { path: { source } } }))).items,
  })

/** The installed packages that have an MCP server. */
export const serversQuery = queryOptions({
  queryKey: ['packages', 'servers'],
  queryFn: async () => (await body(api.GET('/api/v1/packages'))).items.filter(each => each.mcp_server),
})

export const addSource = (request: Schemas['NewSourceRequest']) => body(api.POST('/api/v1/sources', { body: request }))

export const editSource = (source: string, request: Schemas['EditSourceRequest']) =>
  body(api.PATCH('/api/v1/sources/{source}', { params: { path: { source } }, body: request }))

export const removeSource = (source: string) => body(api.DELETE('/api/v1/sources/{source}', { params: { path: { source } } }))

export const testSource = (source: string) => body(api.POST('/api/v1/sources/{source}/test', { params: { path: { source } } }))

export const refreshSource = (source: string) => body(api.POST('/api/v1/sources/{source}/refresh', { params: { path: { source } } }))

export const pauseSource = (source: string, reason: string) =>
  body(api.POST('/api/v1/kill-switches/on', { body: { scope: `source:${source}`, reason } }))

export const resumeSource = (source: string) => body(api.POST('/api/v1/kill-switches/off', { body: { scope: `source:${source}` } }))

export const denyAction = (action: string) =>
  body(api.PUT('/api/v1/modes/{action}', { params: { path: { action } }, body: { mode: 'deny' } }))
