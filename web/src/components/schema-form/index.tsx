// A form for the params of a call, from the JSON Schema of its action.
import { Component, lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import type { Json, Schemas } from '@/api/types'
import { cx, fieldClass, Loading } from '@/components/ui'
import { line } from '@/lib/clean'
import { jsonOf } from './json-text'

export type SchemaFormProps = {
  /** What the ids of its fields begin with, where a page has several forms. */
  name?: string
  /** Whether the schema is ours, so that its hints count: a schema of others gets no say in how it is shown. */
  isOurs?: boolean
  /** Whether every text in it may be a template. */
  isTemplated?: boolean
  schema: Json | undefined
  /** What it begins with. */
  params: Json
  /** Whether to say what is wrong: not before somebody has tried to send it. */
  showErrors: boolean
  /** What the server said is wrong. */
  refused?: readonly Pick<Schemas['FieldError'], 'pointer' | 'message'>[]
  onChange: (params: Json) => void
  onChecked?: (isGood: boolean) => void
}

const Form = lazy(() => import('./form'))

export function SchemaForm(props: SchemaFormProps) {
  return (
    <OrJson otherwise={<AsJson {...props} />}>
      <Suspense fallback={<Loading />}>
        <Form {...props} />
      </Suspense>
    </OrJson>
  )
}

/** The schema of an object, with the params that it does not name: those are edited, too. */
export function whole(schema: Json | undefined, params: Json): Json {
  const properties = { ...((schema?.properties ?? {}) as Json) }
  const isOpen = schema?.additionalProperties === undefined || schema.additionalProperties === true
  if (isOpen) for (const name of Object.keys(params)) properties[name] ??= typed(params[name])
  return { type: 'object', ...schema, properties }
}

const typed = (value: unknown): Json => (['string', 'number', 'boolean'].includes(typeof value) ? { type: typeof value } : {})

/** A schema of others may be one that no form can be made of. */
class OrJson extends Component<{ otherwise: ReactNode; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false }
  static getDerivedStateFromError() {
    return { failed: true }
  }
  override render() {
    return this.state.failed ? this.props.otherwise : this.props.children
  }
}

function AsJson({ params, onChange, onChecked }: SchemaFormProps) {
  const [text, setText] = useState(() => JSON.stringify(params, null, 2))
  const { value, why } = jsonOf(text, true)
  const isGood = value !== undefined
  useEffect(() => onChecked?.(isGood), [isGood, onChecked])
  return (
    <label>
      The params as JSON: no form could be made of its schema
      <textarea
        rows={10}
        spellCheck={false}
        value={text}
        aria-invalid={!isGood}
        onChange={event => {
          setText(event.target.value)
          const { value: next } = jsonOf(event.target.value, true)
          if (next) onChange(next as Json)
        }}
        className={cx(fieldClass, 'mt-1 font-mono text-xs')}
      />
      {why && <span className="foreign text-xs font-medium text-danger">{line(why)}</span>}
    </label>
  )
}
