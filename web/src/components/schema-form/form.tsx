// The params of a call as the fields of its schema. It is loaded when it is needed first. What is not touched stays as it is: no default is
// filled in, and nothing is left out.
import { type RJSFSchema, toErrorSchema } from '@rjsf/utils'
import { useContext, useEffect, useMemo, useState } from 'react'
import type { Json, Schemas } from '@/api/types'
import { Unread } from './around'
import { hinted } from './hints'
import { shapeOf, visible } from './shape'
import { type Context, Themed } from './theme'
import { plain, validator } from './validator'

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

const NOTHING_FILLED_IN = {
  emptyObjectFields: 'skipDefaults',
  allOf: 'skipDefaults',
  constAsDefaults: 'never',
  requiredBooleanDefault: 'skip',
  arrayMinItems: { populate: 'never' },
} as const

export default function Form({
  name = 'param',
  isOurs,
  isTemplated = false,
  schema,
  params,
  showErrors,
  refused,
  onChange,
  onChecked,
}: SchemaFormProps) {
  const root = useMemo(() => visible(whole(schema, params) as RJSFSchema), [schema, params])
  const shape = useMemo(() => (isOurs ? hinted(shapeOf(root, root), root, root) : shapeOf(root, root)), [isOurs, root])
  const [data, setData] = useState<Json>(params)
  const [broken, setBroken] = useState<ReadonlySet<string>>(new Set())
  const found = useMemo(() => validator.validateFormData(data, root).errors, [data, root])
  const wrong = found.length + broken.size
  // The page around it decides whether it can be sent.
  useEffect(() => onChecked?.(wrong === 0), [wrong, onChecked])
  const unread = useContext(Unread)
  const isUnread = broken.size > 0
  useEffect(() => {
    unread(name, isUnread)
    return () => unread(name, false)
  }, [unread, name, isUnread])
  const context = useMemo<Context>(
    () => ({
      isTemplated,
      broken: (id: string, is: boolean) =>
        setBroken(old => {
          const next = new Set(old)
          is ? next.add(id) : next.delete(id)
          return next
        }),
    }),
    [isTemplated],
  )
  const told = (refused ?? []).map(({ pointer, message }) => ({
    property: pointer
      .split('/')
      .slice(1)
      .map(part => `.${part.replaceAll('~1', '/').replaceAll('~0', '~')}`)
      .join(''),
    message,
    stack: message,
  }))
  return (
    <Themed
      schema={root}
      uiSchema={{ ...shape, 'ui:options': { label: false } }}
      formData={data}
      formContext={context}
      validator={validator}
      idPrefix={name}
      tagName="div"
      noValidate
      noHtml5Validate
      extraErrors={toErrorSchema([...(showErrors ? found : []), ...told])}
      experimental_defaultFormStateBehavior={NOTHING_FILLED_IN}
      onChange={({ formData }) => {
        setData(formData as Json)
        onChange(plain(formData as Json))
      }}
    >
      {/* The button is in the page around it. */}
      <span />
    </Themed>
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
