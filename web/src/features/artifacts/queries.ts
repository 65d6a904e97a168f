// Everything the lists of artifacts ask the server.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'

export type Artifact = Schemas['ArtifactView']
/** Of a run, of a call, or all. */
export type Made = { run?: string; invocation?: string }

export const artifactsQuery = (made: Made) =>
  infiniteQueryOptions({
    queryKey: ['artifacts', made],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(api.GET('/api/v1/artifacts', { params: { query: { ...made, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
  })

export const artifactQuery = (artifact: string) =>
  queryOptions({
    queryKey: ['artifacts', artifact],
    queryFn: () => body(api.GET('/api/v1/artifacts/{artifact}', { params: { path: { artifact } } })),
    retry: false,
  })

/** A path on this server that opens for whoever is logged in and may read the artifact, for a while. */
export const linkTo = async (artifact: string): Promise<string> =>
  (await body(api.POST('/api/v1/artifacts/{artifact}/link', { params: { path: { artifact } }, body: {} }))).path

/** The same, kept for as long as it surely opens. */
export const linkQuery = (artifact: string) =>
  queryOptions({ queryKey: ['artifacts', artifact, 'link'], queryFn: () => linkTo(artifact), retry: false, staleTime: 10 * 60_000 })

/** Takes its bytes away from everybody, for good. */
export const quarantine = (artifact: string) =>
  body(api.POST('/api/v1/artifacts/{artifact}/quarantine', { params: { path: { artifact } } }))
