// A part of a definition as a form, made of its published schema.
import { useState } from 'react'
import type { Json, Mistake } from '@/api/types'
import { SchemaForm } from '@/components/schema-form'
import { asErrors, formOf, merged } from './model'

type PartProps = { name: string; schema: Json; part: Json; value: Json; mistakes: readonly Mistake[]; onChange: (value: Json) => void }

/** Some members of a value as a form; the others stay as they are. */
export function Part({ name, schema, part, value, mistakes, onChange }: PartProps) {
  // The form begins with this and then has its own: what it is given again must not replace what is typed.
  const [form] = useState(() => {
    const names = Object.keys((part.properties ?? {}) as Json)
    const { title: _, description: __, ...bare } = part
    return {
      schema: formOf(schema, bare, value),
      params: Object.fromEntries(Object.entries(value).filter(([each]) => names.includes(each))),
    }
  })
  return (
    <SchemaForm
      name={name}
      isOurs
      schema={form.schema}
      params={form.params}
      showErrors={false}
      refused={asErrors(mistakes)}
      onChange={edited => onChange(merged(value, form.schema, edited))}
    />
  )
}
