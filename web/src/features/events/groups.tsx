// Who takes events together, and how far each group is.

import { useQuery } from '@tanstack/react-query'
import { Asked } from '@/components/list-page'
import { Copy, Empty, Foreign, Loading, When } from '@/components/ui'
import { counted, quoted } from '@/lib/format'
import { groupsQuery } from './queries'

export function Groups() {
  const groups = useQuery(groupsQuery)
  return (
    <div className="min-h-0 flex-1 overflow-auto">
      <Asked query={groups} />
      {groups.isPending && <Loading />}
      {groups.data?.length === 0 && (
        <Empty title="No group takes events">
          <Copy text="countersign event group create billing" />
        </Empty>
      )}
      <ul aria-label="Consumer groups" className="divide-y">
        {groups.data?.map(group => (
          <li key={group.name} className="grid gap-x-4 gap-y-1 px-4 py-2 sm:grid-cols-[minmax(0,1fr)_auto] md:px-6">
            <div className="min-w-0">
              <Foreign text={group.name} className="font-medium" />
              <p className="text-xs text-muted-fg tabular-nums">
                at {group.cursor} · {group.behind} behind · {group.in_flight} in flight
                {group.waiting_since && (
                  <>
                    {' '}
                    · its next event was published <When at={group.waiting_since} />
                  </>
                )}
              </p>
              {group.overtaken && (
                <p className="text-xs text-danger">
                  overtaken: {counted(group.lost, 'event')} {group.lost === 1 ? 'was' : 'were'} dropped before it had them
                </p>
              )}
            </div>
            {/* Groups of ours go on by themselves. */}
            {group.created_by && <Copy text={`countersign event group reset ${quoted(group.name)} --to now`} />}
          </li>
        ))}
      </ul>
    </div>
  )
}
