// What a template may use: names and filters. A click puts one where the cursor is.
import { FILTERS } from './model'

export function TemplateNames({ names, onPick }: { names: readonly string[]; onPick: (text: string) => void }) {
  return (
    <details>
      <summary className="cursor-pointer text-xs text-muted-fg select-none">Templates: names and filters</summary>
      <div className="mt-2 space-y-2 text-xs">
        <p className="flex flex-wrap gap-1">
          {names.map(name => (
            <Chip key={name} text={name} onPick={() => onPick(`{{ ${name} }}`)} />
          ))}
        </p>
        <p className="text-muted-fg">Filters stand after a name, as in {'{{ found | length }}'}:</p>
        <p className="flex flex-wrap gap-1">
          {FILTERS.map(([written, gives]) => (
            <Chip key={written} text={`| ${written}`} about={gives} onPick={() => onPick(` | ${written}`)} />
          ))}
        </p>
      </div>
    </details>
  )
}

function Chip({ text, about, onPick }: { text: string; about?: string; onPick: () => void }) {
  return (
    <button
      type="button"
      title={about}
      // The field keeps its cursor.
      onPointerDown={event => event.preventDefault()}
      onClick={onPick}
      className="rounded border bg-muted px-1.5 py-0.5 font-mono hover:bg-accent max-md:min-h-8"
    >
      {text}
    </button>
  )
}
