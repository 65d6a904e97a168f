// The names that fields offer while somebody types.
import { useQuery } from '@tanstack/react-query'
import { actionsQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { eventTypesQuery } from './queries'

export function TimeZones() {
  return (
    <datalist id="time-zones">
      {[...new Set(['UTC', ...Intl.supportedValuesOf('timeZone')])].map(zone => (
        <option key={zone} value={zone} />
      ))}
    </datalist>
  )
}

/** Everything that a field of a definition can offer. */
export function Lists() {
  const actions = useQuery(actionsQuery)
  const types = useQuery(eventTypesQuery)
  return (
    <>
      <TimeZones />
      <datalist id="action-ids">
        {actions.data?.sources.flatMap(source =>
          source.actions.map(action => (
            <option key={action.id} value={action.id}>
              {line(action.title)}
            </option>
          )),
        )}
      </datalist>
      <datalist id="event-types">
        {types.data?.map(type => (
          <option key={type.type} value={type.type}>
            {line(type.about)}
          </option>
        ))}
      </datalist>
      <datalist id="queues">
        {['auto', 'fast', 'medium', 'long'].map(queue => (
          <option key={queue} value={queue} />
        ))}
      </datalist>
    </>
  )
}
