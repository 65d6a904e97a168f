// What one run, one step or one call made beside its result; nothing where it made nothing.

import { useInfiniteQuery } from '@tanstack/react-query'
import { Asked } from '@/components/list-page'
import { Button, Section } from '@/components/ui'
import { type Artifact, artifactsQuery, type Made } from './queries'
import { ArtifactRows } from './rows'

type Props = { of: Made; only?: (artifact: Artifact) => boolean; stepOf?: (artifact: Artifact) => string | undefined }

export function MadeArtifacts({ of, only = () => true, stepOf }: Props) {
  const read = useInfiniteQuery({ ...artifactsQuery(of), retry: false })
  const items = read.data?.pages.flatMap(page => page.items).filter(only) ?? []
  if (items.length === 0 && !read.error && !read.hasNextPage) return null
  return (
    <Section title="What it made">
      <Asked query={read} />
      {items.length > 0 && <ArtifactRows items={items} stepOf={stepOf} />}
      {read.hasNextPage && (
        <Button className="mt-2" busy={read.isFetchingNextPage} onClick={() => void read.fetchNextPage()}>
          Older
        </Button>
      )}
    </Section>
  )
}
