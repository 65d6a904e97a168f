// Every param of a call, as it will be sent: labelled, typed, and never cut without a word.
import { useState } from 'react'
import { block, json, line } from '@/lib/clean'

const LONG = 600
const LINES = 12

export type Label = { label: string; type: string }

/** What the schema calls a param; the name itself is always shown too. */
export function labelOf(schema: Record<string, unknown> | undefined, name: string): Label {
  const properties = (schema?.properties ?? {}) as Record<string, { title?: string; type?: string | string[] } | undefined>
  const found = properties[name]
  const type = Array.isArray(found?.type) ? found.type.join(' or ') : (found?.type ?? '')
  return { label: typeof found?.title === 'string' ? found.title : '', type }
}

export function Params({ params, schema }: { params: Record<string, unknown>; schema?: Record<string, unknown> }) {
  const names = Object.keys(params)
  if (params._quarantined === true) return <p className="text-muted-fg">Held in quarantine, and shown only to whoever asks for it there.</p>
  if (names.length === 0) return <p className="text-muted-fg">No params.</p>
  return (
    <dl className="divide-y rounded-md border bg-panel">
      {names.map(name => {
        const { label, type } = labelOf(schema, name)
        return (
          <div key={name} className="grid gap-x-4 px-3 py-2 sm:grid-cols-[10rem_minmax(0,1fr)]">
            <dt className="foreign font-mono text-xs leading-6 text-muted-fg" title={type}>
              {line(name)}
              {label && <span className="block font-sans">{line(label)}</span>}
            </dt>
            <dd className="min-w-0">
              <Value value={params[name]} />
            </dd>
          </div>
        )
      })}
    </dl>
  )
}

export function Value({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false)
  const text = typeof value === 'string' ? block(value) : json(value)
  const lines = text.split('\n')
  const isLong = text.length > LONG || lines.length > LINES
  const shown = isLong && !whole ? lines.slice(0, LINES).join('\n').slice(0, LONG) : text
  return (
    <>
      <div className="foreign font-mono text-[13px] leading-6 whitespace-pre-wrap">
        {shown === '' ? <i className="text-muted-fg">empty text</i> : shown}
      </div>
      {isLong && (
        <button type="button" className="text-xs text-primary underline" onClick={() => setWhole(!whole)}>
          {whole
            ? 'Show less'
            : `Show all ${text.length.toLocaleString()} characters${lines.length > 1 ? `, ${lines.length.toLocaleString()} lines` : ''}`}
        </button>
      )}
    </>
  )
}
