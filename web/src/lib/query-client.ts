// What is known of the server, read again when it has changed.
import { type InvalidateOptions, type InvalidateQueryFilters, QueryClient } from '@tanstack/react-query'

/**
 * TanStack Query stops a read that is under way when it is to be read again, except the first read of a query: that one is joined. What it
 * brings may have been written before the change, so it is read once more.
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
