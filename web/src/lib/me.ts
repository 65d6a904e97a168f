import { queryOptions, useQuery } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { api, body, isLoggedOut, onLogin } from '@/api/client'
import type { Permission } from '@/api/types'

export const meQuery = queryOptions({ queryKey: ['me'], queryFn: () => body(api.GET('/api/v1/whoami')), staleTime: 60_000, retry: false })

export function useMay(): readonly Permission[] {
  return useQuery(meQuery).data?.permissions ?? []
}

/** Whether this browser was found to be logged out. */
export const useLoggedOut = (): boolean => useSyncExternalStore(onLogin, isLoggedOut)
