// From a JSON Schema to fields and back, keeping every type: a number stays a number, and what has no field of its own is edited as JSON.

type Schema = Record<string, unknown>
export type Field = {
  name: string
  kind: 'text' | 'lines' | 'number' | 'integer' | 'boolean' | 'choice' | 'json'
  required: boolean
  label: string
  help: string
  choices: readonly unknown[]
}

/** The fields of an object schema, and of params that the schema does not name. */
export function fieldsOf(schema: Schema | undefined, params: Record<string, unknown>): Field[] {
  const properties = (schema?.properties ?? {}) as Record<string, Schema>
  const required = Array.isArray(schema?.required) ? (schema.required as string[]) : []
  const names = [...new Set([...Object.keys(properties), ...Object.keys(params)])]
  return names.map(name => {
    const of = properties[name] ?? {}
    return {
      name,
      kind: kindOf(of, params[name]),
      required: required.includes(name),
      label: typeof of.title === 'string' ? of.title : name,
      help: typeof of.description === 'string' ? of.description : '',
      choices: Array.isArray(of.enum) ? of.enum : [],
    }
  })
}

function kindOf(schema: Schema, value: unknown): Field['kind'] {
  if (Array.isArray(schema.enum)) return 'choice'
  const type = schema.type ?? (value === undefined ? undefined : typeof value)
  // A value that does not fit its type is edited as it is, so that it is not changed unseen.
  const fits = (name: string) => value === undefined || typeof value === name
  if (type === 'string' && fits('string')) return isLong(schema, value) ? 'lines' : 'text'
  if ((type === 'number' || type === 'integer') && fits('number')) return type
  if (type === 'boolean' && fits('boolean')) return 'boolean'
  return 'json'
}

const isLong = (schema: Schema, value: unknown): boolean =>
  (typeof value === 'string' && (value.includes('\n') || value.length > 80)) ||
  (typeof schema.maxLength === 'number' && schema.maxLength > 2_000)

/** What a field shows; an absent param is an empty text. */
export function shown(field: Field, value: unknown): string {
  if (value === undefined) return ''
  return field.kind === 'text' || field.kind === 'lines' ? String(value) : JSON.stringify(value, null, field.kind === 'json' ? 2 : 0)
}

export type Read = { params: Record<string, unknown>; errors: Record<string, string> }

/** The params that the texts of the fields stand for. An empty text leaves an optional param out, unless it was an empty text before. */
export function read(fields: readonly Field[], texts: Record<string, string>, before: Record<string, unknown>): Read {
  const params: Record<string, unknown> = {}
  const errors: Record<string, string> = {}
  for (const field of fields) {
    const text = texts[field.name] ?? ''
    const isText = field.kind === 'text' || field.kind === 'lines'
    if (text === '' && !(isText && (field.required || before[field.name] === ''))) {
      if (field.required) errors[field.name] = 'Required'
      continue
    }
    if (isText) {
      params[field.name] = text
      continue
    }
    try {
      const value: unknown = JSON.parse(text)
      const isNumber = field.kind === 'number' || field.kind === 'integer'
      if (isNumber && typeof value !== 'number') errors[field.name] = 'A number'
      else if (field.kind === 'integer' && !Number.isInteger(value)) errors[field.name] = 'A whole number'
      else params[field.name] = value
    } catch {
      errors[field.name] = field.kind === 'json' ? 'Not JSON' : 'A number'
    }
  }
  return { params, errors }
}
