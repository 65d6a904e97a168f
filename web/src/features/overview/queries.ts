import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import { serverNow } from '@/lib/clock'
import { type Call, callOf, startOf } from './model'
import type { Range } from './range'

/** The API counts nothing over all calls, so they are read, a hundred at a time, up to so many. */
const PAGES_MAX = 10

export type Calls = { calls: Call[] /** When the oldest that was read was made, if there are more. */; cutAt?: string }

/** The calls made in the range, the newest first. Dry runs have no effect and are left out. */
export const callsQuery = (range: Range) =>
  queryOptions({
    queryKey: ['overview', range],
    staleTime: 30_000,
    queryFn: async (): Promise<Calls> => {
      const start = startOf(range, serverNow())
      const calls: Call[] = []
      let after: string | undefined
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const got = await body(api.GET('/api/v1/invocations', { params: { query: { limit: 100, after } } }))
        const within = got.items.filter(item => Date.parse(item.created_at) >= start)
        calls.push(...within.filter(item => !item.dry_run).map(callOf))
        if (!got.next || within.length < got.items.length) return { calls }
        after = got.next
      }
      return { calls, cutAt: calls[calls.length - 1]?.created_at }
    },
  })

export const statusQuery = queryOptions({ queryKey: ['status'], queryFn: () => body(api.GET('/api/v1/status')), staleTime: 2_000 })
