// For which spaces something is: all, or those that are chosen.
import { useQuery } from '@tanstack/react-query'
import { spacesQuery } from '@/lib/spaces'
import { Foreign } from './ui'

/** The names of spaces, as far as they are known. */
export function useSpaceNames(ids: readonly string[] | null | undefined): string {
  const spaces = useQuery({ ...spacesQuery, enabled: !!ids })
  if (!ids) return 'all spaces'
  return ids.map(id => spaces.data?.find(space => space.id === id)?.name ?? id).join(', ')
}

type Props = { chosen: readonly string[] | null; onChange: (chosen: string[] | null) => void }

export function SpacesField({ chosen, onChange }: Props) {
  const spaces = useQuery(spacesQuery)
  const toggle = (id: string) => onChange(chosen?.includes(id) ? chosen.filter(each => each !== id) : [...(chosen ?? []), id])
  return (
    <fieldset>
      <legend className="mb-1 font-medium">For calls of</legend>
      <label className="mr-4 inline-flex min-h-9 items-center gap-2">
        <input type="radio" checked={chosen === null} onChange={() => onChange(null)} /> all spaces
      </label>
      <label className="inline-flex min-h-9 items-center gap-2">
        <input type="radio" checked={chosen !== null} onChange={() => onChange([])} /> these only
      </label>
      {chosen !== null && (
        <div className="flex flex-wrap gap-x-4">
          {spaces.data?.map(space => (
            <label key={space.id} className="inline-flex min-h-9 items-center gap-2">
              <input type="checkbox" checked={chosen.includes(space.id)} onChange={() => toggle(space.id)} /> <Foreign text={space.name} />
            </label>
          ))}
          {chosen.length === 0 && <p className="w-full text-xs text-danger">Choose at least one.</p>}
        </div>
      )}
    </fieldset>
  )
}
