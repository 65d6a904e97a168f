// Lists that the server answers page by page: their page, what stands in place of rows, and the way to older ones.
import type { ReactNode } from 'react'
import type { ApiError } from '@/api/client'
import { PageHead } from './page-head'
import { Button, Empty, Failed, Loading } from './ui'

type Asking = { error: unknown; isPending: boolean; refetch: () => unknown }
type Paged = { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }

type Listed = {
  query: Asking & Partial<Paged>
  isEmpty: boolean
  /** What stands there if there are no rows. */
  empty: ReactNode
  children: ReactNode
}

/** A page that is one list: its head stays, its rows scroll. `above` is between them. */
export function ListPage({
  title,
  command,
  head,
  above,
  ...list
}: Listed & { title: string; command: string; head?: ReactNode; above?: ReactNode }) {
  return (
    <div className="flex h-full flex-col">
      <PageHead title={title} command={command}>
        {head}
      </PageHead>
      {above}
      <div className="min-h-0 flex-1 overflow-auto">
        <Rows {...list} />
      </div>
    </div>
  )
}

export function Rows({ query, isEmpty, empty, children }: Listed) {
  const { hasNextPage = false, isFetchingNextPage = false, fetchNextPage = () => undefined } = query
  return (
    <>
      <Asked query={query} />
      {query.isPending ? <Loading /> : isEmpty ? !query.error && !hasNextPage && empty : children}
      <More query={{ hasNextPage, isFetchingNextPage, fetchNextPage }} />
    </>
  )
}

/** What went wrong with a request, and the way to make it again. */
export function Asked({ query }: { query: { error: unknown; refetch: () => unknown } }) {
  return query.error ? <Failed error={query.error as ApiError} retry={() => void query.refetch()} /> : null
}

export function More({ query, children = 'Older' }: { query: Paged; children?: ReactNode }) {
  return query.hasNextPage ? (
    <div className="p-4 text-center">
      <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        {children}
      </Button>
    </div>
  ) : null
}

/** In place of rows that a filter leaves out. */
export function NoneFits({ what, onClear }: { what: string; onClear: () => void }) {
  return (
    <Empty title={`No ${what} fits`}>
      <Button onClick={onClear}>Show all</Button>
    </Empty>
  )
}
