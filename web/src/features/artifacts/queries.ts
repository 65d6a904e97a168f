// Everything the lists of artifacts ask the server.
import { infiniteQueryOptions } from '@tanstack/react-query'
import { body } from '@/api/client'
import { undescribed } from '@/api/undescribed'

/** What is known of an artifact. */
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

type Artifacts = { items: Artifact[]; next?: string | null }
/** Of a run, of a call, or all. */
export type Made = { run?: string; invocation?: string }

export const artifactsQuery = (made: Made) =>
  infiniteQueryOptions({
    queryKey: ['artifacts', made],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      body(undescribed.GET<Artifacts>('/api/v1/artifacts', { params: { query: { ...made, limit: 50, after: pageParam } } })),
    getNextPageParam: page => page.next ?? undefined,
  })

/** A path on this server that opens for whoever is logged in and may read the artifact, for a while. */
export const linkTo = async (artifact: string): Promise<string> =>
  (await body(undescribed.POST<{ path: string }>('/api/v1/artifacts/{artifact}/link', { params: { path: { artifact } }, body: {} }))).path
