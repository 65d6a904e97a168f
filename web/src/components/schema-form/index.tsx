// A form for the params of a call, from the JSON Schema of its action.
import { Component, lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import type { Json } from '@/api/types'
import { cx, fieldClass, Loading } from '@/components/ui'
import { line } from '@/lib/clean'
import type { SchemaFormProps } from './form'
import { jsonOf } from './json-text'

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
