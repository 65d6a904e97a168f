// Checks params against a schema of others without evaluating text, which the content security policy refuses. The server stays the
// authority: it checks again.
import { type OutputUnit, type Schema, Validator } from '@cfworker/json-schema'
import { type RJSFSchema, type RJSFValidationError, toErrorSchema, type ValidatorType } from '@rjsf/utils'

const compiled = new WeakMap<object, WeakMap<object, Validator>>()

/** A part of a schema needs the definitions of the whole. An `$id` would lead references away from it. */
function compile(schema: RJSFSchema, root: RJSFSchema = schema): Validator {
  const byRoot = compiled.get(schema) ?? new WeakMap<object, Validator>()
  compiled.set(schema, byRoot)
  const known = byRoot.get(root)
  if (known) return known
  const { $id: _, ...local } = { $defs: root.$defs, definitions: root.definitions, ...schema }
  const made = new Validator(plain(local) as Schema, '2020-12', false)
  byRoot.set(root, made)
  return made
}

/** Without what is undefined, which JSON does not have. */
export const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

const check = (schema: RJSFSchema | boolean, data: unknown, root?: RJSFSchema): OutputUnit[] =>
  typeof schema === 'boolean' ? [] : compile(schema, root).validate(plain(data ?? {})).errors

const isUnder = (a: string, b: string) => a.startsWith(`${b}/`)

/** Every enclosing keyword is reported, too: an error counts only where no deeper one explains it. */
const causes = (all: OutputUnit[]) =>
  all
    .filter(found => found.keyword !== 'if' && found.keyword !== 'false')
    .filter(
      (found, _, rest) =>
        !rest.some(
          other =>
            isUnder(other.keywordLocation, found.keywordLocation) &&
            (other.instanceLocation === found.instanceLocation || isUnder(other.instanceLocation, found.instanceLocation)),
        ),
    )

/** `#/a/b~1c` as `.a.b/c`. */
const dotted = (pointer: string) =>
  pointer
    .slice(1)
    .split('/')
    .filter(Boolean)
    .map(part => `.${decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')}`)
    .join('')

/** The error of a missing or superfluous param stands at that param. */
function toError(found: OutputUnit): RJSFValidationError {
  const child = ['required', 'additionalProperties'].includes(found.keyword) ? /"([^"]+)"/.exec(found.error)?.[1] : undefined
  const property = dotted(found.instanceLocation) + (child ? `.${child}` : '')
  const message = found.keyword === 'required' ? 'Required' : found.error
  return { name: found.keyword, property, message, stack: `${property} ${message}`, schemaPath: found.keywordLocation, params: {} }
}

export const validator: ValidatorType = {
  validateFormData(data, schema, _custom, transform, ui) {
    const found = causes(check(schema, data)).map(toError)
    const errors = transform ? transform(found, ui) : found
    return { errors, errorSchema: toErrorSchema(errors) }
  },
  // Chooses the branch of `if` and `oneOf`.
  isValid: (schema, data, root) => (schema as unknown) !== false && check(schema, data, root).length === 0,
  rawValidation: (schema, data) => ({ errors: check(schema, data) as never[] }),
  reset() {},
}
