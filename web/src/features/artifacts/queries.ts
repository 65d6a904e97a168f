// Everything the lists of artifacts ask the server.
import { infiniteQueryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'

/** What is known of an artifact. The generated types of the API do not have it. */
export type Artifact = {
  id: string
  run_id?: string | null
  invocation_id?: string | null
  name: string
  media_type: string
  size_bytes: number
  sha256: string
  created_at: string
  expires_at?: string | null
  quarantined_at?: string | null
  quarantined_by?: string | null
}

type Answer<T> = Promise<{ data?: T; error?: unknown; response: Response }>
type Artifacts = {
  GET(path: '/api/v1/artifacts', asked: { params: { query: object } }): Answer<{ items: Artifact[]; next?: string | null }>
  POST(path: '/api/v1/artifacts/{artifact}/link', asked: { params: { path: { artifact: string } }; body: object }): Answer<{ path: string }>
}
const artifacts = api as unknown as Artifacts

/** Of a run, of a call, or all. */
export type Made = { run?: string; invocation?: string }

export const artifactsQuery = (made: Made) =>
  infiniteQueryOptions({
    queryKey: ['artifacts', made],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(artifacts.GET('/api/v1/artifacts', { params: { query: { ...made, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
  })

/** A path on this server that opens for whoever is logged in and may read the artifact, for a while. */
export const linkTo = async (artifact: string): Promise<string> =>
  (await body(artifacts.POST('/api/v1/artifacts/{artifact}/link', { params: { path: { artifact } }, body: {} }))).path
