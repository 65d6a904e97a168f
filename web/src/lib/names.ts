// The names of people, for whom the API has ids.
import { useQuery } from '@tanstack/react-query'
import type { Schemas } from '@/api/types'
import { usersQuery } from './users'

const namesOf = (users: readonly Schemas['UserView'][]) => new Map(users.map(user => [`user:${user.id}`, user.name]))

export type NameOf = (principal: string) => string
/** For where no names are known. */
export const asItIs: NameOf = principal => principal

/** The name of a principal; what is not known stays as it is. */
export function useNames(): NameOf {
  const { data } = useQuery({ ...usersQuery, select: namesOf })
  return principal => data?.get(principal) ?? principal
}
