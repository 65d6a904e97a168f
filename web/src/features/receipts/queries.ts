import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Status } from '@/api/types'

export type ReceiptFilter = { action?: string; session?: string; status?: string; since?: string; trace_id?: string }

/** What stands in the address may be no status: the server says so. */
export const receiptsQuery = ({ status, ...filter }: ReceiptFilter) =>
  infiniteQueryOptions({
    queryKey: ['receipts', { ...filter, status }],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => {
      const query = { ...filter, status: status as Status, limit: 50, after: pageParam }
      return body(api.GET('/api/v1/receipts', { params: { query } }))
    },
    getNextPageParam: page => page.next ?? undefined,
    placeholderData: keepPreviousData,
  })

export const proofQuery = (receipt: string) =>
  queryOptions({
    queryKey: ['proof', receipt],
    queryFn: () => body(api.GET('/api/v1/receipts/{receipt}/proof', { params: { path: { receipt } } })),
    retry: false,
  })

export const receiptQuery = (receipt: string) =>
  queryOptions({
    queryKey: ['receipt', receipt],
    queryFn: () => body(api.GET('/api/v1/receipts/{receipt}', { params: { path: { receipt } } })),
  })

export const keysQuery = queryOptions({ queryKey: ['keys'], queryFn: () => body(api.GET('/api/v1/keys')), staleTime: 60_000 })

export const entriesQuery = (invocation: string | undefined) =>
  queryOptions({
    queryKey: ['entries', invocation],
    enabled: !!invocation,
    queryFn: () => body(api.GET('/api/v1/invocations/{invocation}/entries', { params: { path: { invocation: invocation ?? '' } } })),
  })
