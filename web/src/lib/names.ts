// The names of people, for whom the API has ids.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, body } from '@/api/client'

const namesQuery = queryOptions({
  queryKey: ['names'],
  queryFn: async () =>
    new Map(
      (await body(api.GET('/api/v1/users', { params: { query: { limit: 100 } } }))).items.map(user => [`user:${user.id}`, user.name]),
    ),
  staleTime: 300_000,
  retry: false,
})

/** The name of a principal; what is not known stays as it is. */
export function useNames(): (principal: string) => string {
  const { data } = useQuery(namesQuery)
  return principal => data?.get(principal) ?? principal
}
