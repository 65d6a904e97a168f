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

export type NameOf = (principal: string) => string
/** For where no names are known. */
export const asItIs: NameOf = principal => principal

/** The name of a principal; what is not known stays as it is. */
export function useNames(): NameOf {
  const { data } = useQuery(namesQuery)
  return principal => data?.get(principal) ?? principal
}
