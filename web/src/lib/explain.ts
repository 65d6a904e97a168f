// What would happen to a call now, and why. Nothing is performed, held or counted.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Schemas } from '@/api/types'

export const explainQuery = (asked: Schemas['ExplainRequest'] | undefined) =>
  queryOptions({
    queryKey: ['rules', 'explain', asked],
    enabled: !!asked,
    queryFn: () => body(api.POST('/api/v1/explain', { body: asked as Schemas['ExplainRequest'] })),
    retry: false,
  })
