// Which parts of a schema have a field of their own. What has none is edited as JSON, so that no value changes its type.
import type { RJSFSchema, UiSchema } from '@rjsf/utils'

const DEPTH_MAX = 12
const FIELDS = ['string', 'number', 'integer', 'null']

type Node = RJSFSchema | boolean | undefined

/** One type besides `null`; undefined if there are several, or none is said. */
function typeOf(node: RJSFSchema): string | undefined {
  const types = Array.isArray(node.type) ? node.type.filter(type => type !== 'null') : [node.type]
  return types.length === 1 ? types[0] : undefined
}

export function shapeOf(node: Node, root: RJSFSchema, depth = 0): UiSchema {
  if (!node || typeof node === 'boolean' || depth > DEPTH_MAX) return { 'ui:field': 'json' }
  const inner = (next: Node) => shapeOf(next, root, depth + 1)
  if (node.$ref) return inner(resolved(node.$ref, root))
  const branches = [...(node.oneOf ?? []), ...(node.anyOf ?? []), ...(node.allOf ?? []), node.if && node.then, node.if && node.else]
  const known = branches.filter((branch): branch is RJSFSchema => typeof branch === 'object')
  const ofBranches = () => known.filter(branch => branch.properties || branch.$ref).map(inner)
  if (node.properties) {
    const own = Object.entries(node.properties).map(([name, next]) => [name, inner(next as Node)])
    return together([...ofBranches(), Object.fromEntries(own)])
  }
  if (Array.isArray(node.enum) || node.const !== undefined) return node.enum?.every(isPlain) ? {} : { 'ui:field': 'json' }
  if (known.length > 0)
    return known.every(branch => branch.properties || branch.$ref || typeOf(branch)) ? together(ofBranches()) : { 'ui:field': 'json' }
  const type = typeOf(node)
  if (type === 'array' && node.items && !Array.isArray(node.items) && typeof node.items === 'object') return { items: inner(node.items) }
  if (type === 'boolean') return { 'ui:widget': 'yesno' }
  return type && FIELDS.includes(type) ? {} : { 'ui:field': 'json' }
}

/** A param that one branch can only show as JSON is JSON in all. */
function together(shapes: readonly UiSchema[]): UiSchema {
  const all: UiSchema = {}
  for (const shape of shapes) for (const [name, next] of Object.entries(shape)) if (all[name]?.['ui:field'] !== 'json') all[name] = next
  return all
}

/** What takes anything is an empty schema, for which rjsf draws nothing: nobody would see the param. */
export function visible(node: RJSFSchema): RJSFSchema {
  const one = (next: Node): RJSFSchema | false =>
    next === false
      ? false
      : next === true || next === undefined || Object.keys(next).length === 0
        ? { $comment: 'anything' }
        : visible(next)
  const made = { ...node }
  for (const key of ['properties', '$defs', 'definitions'] as const) {
    const named = node[key]
    if (named) made[key] = Object.fromEntries(Object.entries(named).map(([name, next]) => [name, one(next as Node)]))
  }
  for (const key of ['oneOf', 'anyOf', 'allOf'] as const) if (Array.isArray(node[key])) made[key] = node[key].map(next => one(next as Node))
  for (const key of ['then', 'else'] as const) if (typeof node[key] === 'object') made[key] = visible(node[key] as RJSFSchema)
  if (node.items && !Array.isArray(node.items)) made.items = one(node.items as Node)
  return made
}

const isPlain = (value: unknown): boolean => value === null || typeof value !== 'object'

function resolved(ref: string, root: RJSFSchema): Node {
  if (!ref.startsWith('#/')) return undefined
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (at, key) => (at as Record<string, unknown> | undefined)?.[key.replaceAll('~1', '/').replaceAll('~0', '~')],
      root,
    ) as Node
}
