// What our own schemas say of how a field is edited: `x-countersign-widget`. Schemas of others are never read for it.
import type { RJSFSchema, UiSchema } from '@rjsf/utils'

/** The lists of names that a field offers, by the widget that the schema names. The page around the form draws them as `<datalist>`. */
export const LISTS: Record<string, string> = { timezone: 'time-zones', 'event-type': 'event-types', action: 'action-ids', queue: 'queues' }
/** What may use the names and filters of a template. */
const TEMPLATES = ['template', 'expression']

type Node = RJSFSchema | boolean | undefined

/** The same shape with the hints of the schema, one level of objects after the other. */
export function hinted(shape: UiSchema, node: Node, root: RJSFSchema): UiSchema {
  const found = resolved(node, root)
  if (!found) return shape
  const others = resolved(found.additionalProperties as Node, root)
  if (widgetOf(others) === 'jsonpath') return { 'ui:field': 'pairs', 'ui:options': { of: 'JSONPath' } }
  const made: UiSchema = { ...shape }
  const options = optionsOf(found)
  if (options) made['ui:options'] = { ...made['ui:options'], ...options }
  for (const [name, next] of Object.entries(found.properties ?? {})) made[name] = hinted(made[name] ?? {}, next as Node, root)
  return made
}

const hint = (node: RJSFSchema | undefined, name: string) => node?.[`x-countersign-${name}` as keyof RJSFSchema] as string | undefined
const widgetOf = (node: RJSFSchema | undefined) => hint(node, 'widget')

/** A filter and a schema need none: an object without members that are known is edited as JSON. */
function optionsOf(node: RJSFSchema): Record<string, unknown> | undefined {
  const widget = widgetOf(node)
  if (widget === undefined) return undefined
  if (TEMPLATES.includes(widget)) return { long: true, template: true }
  if (widget === 'textarea') return { long: true }
  if (widget === 'cron') return { beneath: 'cron' }
  if (widget === 'money') return { unit: hint(node, 'currency') }
  return LISTS[widget] ? { list: LISTS[widget] } : undefined
}

function resolved(node: Node, root: RJSFSchema): RJSFSchema | undefined {
  if (typeof node !== 'object') return undefined
  const [, name] = /^#\/\$defs\/([^/]+)$/.exec(node.$ref ?? '') ?? []
  if (!node.$ref) return node
  const named = name ? root.$defs?.[name] : undefined
  return typeof named === 'object' ? named : undefined
}
