// What our own schemas say of how a field is edited: `x-countersign-widget`. Schemas of others are never read for it.
import type { RJSFSchema, UiSchema } from '@rjsf/utils'

/** The lists of names that a field offers, by the widget that the schema names. The page around the form draws them as `<datalist>`. */
export const LISTS: Record<string, string> = { timezone: 'time-zones', 'event-type': 'event-types', action: 'action-ids', queue: 'queues' }
const LONG = ['textarea', 'template', 'expression']

type Node = RJSFSchema | boolean | undefined

/** The same shape with the hints of the schema, one level of objects after the other. */
export function hinted(shape: UiSchema, node: Node, root: RJSFSchema): UiSchema {
  const found = resolved(node, root)
  if (!found) return shape
  const made: UiSchema = { ...shape }
  const widget = found['x-countersign-widget' as keyof RJSFSchema] as string | undefined
  const options = optionsOf(widget)
  if (options) made['ui:options'] = { ...made['ui:options'], ...options }
  for (const [name, next] of Object.entries(found.properties ?? {})) made[name] = hinted(made[name] ?? {}, next as Node, root)
  return made
}

function optionsOf(widget: string | undefined): Record<string, unknown> | undefined {
  if (widget === undefined) return undefined
  if (LONG.includes(widget)) return { long: true }
  return LISTS[widget] ? { list: LISTS[widget] } : undefined
}

function resolved(node: Node, root: RJSFSchema): RJSFSchema | undefined {
  if (typeof node !== 'object') return undefined
  const [, name] = /^#\/\$defs\/([^/]+)$/.exec(node.$ref ?? '') ?? []
  if (!node.$ref) return node
  const named = name ? root.$defs?.[name] : undefined
  return typeof named === 'object' ? named : undefined
}
