// The form of a run's inputs, from the definition that it would run. Pure.
import type { Json } from '@/api/types'

type Property = Json & { default?: unknown; description?: string }

/** The schema for a form: what has a default need not be given, and says what it gets. */
export function inputsSchema(definition: Json | undefined): Json {
  const schema = ((definition?.inputs as Json | undefined)?.schema as Json | undefined) ?? {}
  const properties = (schema.properties ?? {}) as Record<string, Property>
  const told = Object.entries(properties).map(([name, property]) => [name, withDefault(property)])
  const required = (schema.required as string[] | undefined)?.filter(name => properties[name]?.default === undefined)
  return { type: 'object', ...schema, properties: Object.fromEntries(told), required }
}

function withDefault(property: Property): Property {
  if (property?.default === undefined) return property
  const { default: given, ...rest } = property
  const text = `Not given: ${typeof given === 'string' ? given : JSON.stringify(given)}`
  return { ...rest, description: rest.description ? `${rest.description} ${text}` : text }
}

/** Whether these are the inputs of the run as they are shown. The order of members does not count. */
export const isSame = (inputs: Json, shown: unknown): boolean => ordered(inputs) === ordered(shown ?? {})

const ordered = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).sort()) : part,
  )

/** Whether there is anything to fill in. */
export const hasInputs = (schema: Json): boolean =>
  Object.keys((schema.properties ?? {}) as Json).length > 0 || schema.additionalProperties !== false
