// Every artifact that calls and runs made and that is still there.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { Asked, Rows } from '@/components/list-page'
import { PageHead } from '@/components/page-head'
import { Copy, Empty, Loading } from '@/components/ui'
import { artifactQuery, artifactsQuery } from './queries'
import { ArtifactRows } from './rows'

const route = getRouteApi('/artifacts')

export function Artifacts() {
  const { artifact } = route.useSearch()
  return (
    <div className="flex h-full flex-col">
      <PageHead title="Artifacts" command={artifact ? `countersign artifact show ${artifact}` : 'countersign artifact list'} />
      <div className="min-h-0 flex-1 overflow-auto px-4 py-4 md:px-6">{artifact ? <Alone id={artifact} /> : <All />}</div>
    </div>
  )
}

function Alone({ id }: { id: string }) {
  const read = useQuery(artifactQuery(id))
  return (
    <>
      <Link to="/artifacts" className="mb-3 inline-block text-primary underline">
        Show all
      </Link>
      <Asked query={read} />
      {read.isPending && <Loading />}
      {read.data && <ArtifactRows items={[read.data]} />}
    </>
  )
}

function All() {
  const read = useInfiniteQuery(artifactsQuery({}))
  const items = read.data?.pages.flatMap(page => page.items) ?? []
  return (
    <Rows
      query={read}
      isEmpty={items.length === 0}
      empty={
        <Empty title="No artifacts">
          <p>A file that an action makes beside its result is kept here, and so is the output of a step that is too long for its run.</p>
          <Copy text="countersign artifact list" className="mt-3" />
        </Empty>
      }
    >
      <ArtifactRows items={items} />
    </Rows>
  )
}
