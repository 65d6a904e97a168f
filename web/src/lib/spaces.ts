// The spaces of the org, among which several pages choose.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import { everyPage } from './pages'

/** Its name begins as those of the rules: what makes them old makes it old. */
export const spacesQuery = queryOptions({
  queryKey: ['rules', 'spaces'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/spaces', { params: { query: { limit: 100, after } } }))),
})
