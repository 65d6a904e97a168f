// The people of the org, whom several pages name.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import { everyPage } from './pages'

export const usersQuery = queryOptions({
  queryKey: ['users'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/users', { params: { query: { limit: 100, after } } }))),
  staleTime: 60_000,
  retry: false,
})
