// A cache that misses no change.
import { type InvalidateOptions, type InvalidateQueryFilters, QueryClient } from '@tanstack/react-query'

/**
 * To read something again, TanStack Query stops a read that is under way and begins anew. Only the first read of a query is left to end, and
 * its answer may be older than the change: so it is read once more.
 */
export class FreshQueryClient extends QueryClient {
  override async invalidateQueries(filters: InvalidateQueryFilters = {}, options: InvalidateOptions = {}): Promise<void> {
    const first = this.getQueryCache()
      .findAll({ ...filters, fetchStatus: 'fetching' })
      .filter(query => query.state.data === undefined)
    await super.invalidateQueries(filters, options)
    const joined = first.filter(query => query.state.data !== undefined)
    await Promise.all(joined.map(({ queryKey }) => super.invalidateQueries({ queryKey, exact: true }, options)))
  }
}
