// How a form from a schema looks here. What the schema says is of its source: it is shown as text, with what it hides.
// The package's entry loads a test helper, which needs a validator that we do not have.
import withTheme, { type ThemeProps } from '@rjsf/core/lib/withTheme.js'
import type {
  ArrayFieldItemTemplateProps,
  ArrayFieldTemplateProps,
  BaseInputTemplateProps,
  FieldProps,
  FieldTemplateProps,
  MultiSchemaFieldTemplateProps,
  ObjectFieldTemplateProps,
  WidgetProps,
  WrapIfAdditionalTemplateProps,
} from '@rjsf/utils'
import { ArrowDown, ArrowUp, Plus, Trash2 } from 'lucide-react'
import { useContext, useState } from 'react'
import { Button, cx, fieldClass } from '@/components/ui'
import { block, line } from '@/lib/clean'
import { unkept } from '@/lib/digits'
import { Beneath } from './around'
import { jsonOf } from './json-text'
import { TemplateArea } from './template-area'

/** What a field needs to know of the form: whether each of its texts may be a template, and where it tells that one cannot be read. */
export type Context = { isTemplated: boolean; broken: (id: string, is: boolean) => void }

const LONG = 80
const helpId = (id: string) => `${id}-help`

function Field({
  id,
  label,
  children,
  rawErrors,
  rawDescription,
  required,
  hidden,
  displayLabel,
  schema,
  fieldPathId,
}: FieldTemplateProps) {
  if (hidden) return <div className="hidden">{children}</div>
  if (!displayLabel) return children
  const name = String(fieldPathId.path.at(-1) ?? '')
  const isItem = typeof fieldPathId.path.at(-1) === 'number'
  const isNamed = typeof schema.title === 'string' && schema.title !== name && !isItem
  return (
    <div>
      <label htmlFor={id} className={cx('foreign mb-1 block text-sm font-medium', isItem && 'sr-only')}>
        {line(label)}
        {isNamed && <code className="ml-2 text-xs font-normal text-muted-fg">{line(name)}</code>}
        {required && <span className="text-muted-fg"> · required</span>}
      </label>
      {children}
      <p id={helpId(id)} className="foreign mt-1 text-xs text-muted-fg">
        {rawErrors?.length ? (
          <span className="font-medium text-danger">{rawErrors.map(line).join(' · ')}</span>
        ) : (
          rawDescription && block(rawDescription)
        )}
      </p>
    </div>
  )
}

/** The outermost object is the form itself; one within it is a group. */
function Group({ title, description, properties, fieldPathId, errorSchema }: ObjectFieldTemplateProps) {
  const fields = <div className="space-y-4">{properties.map(property => property.content)}</div>
  const wrong = errorSchema?.__errors
  if (fieldPathId.path.length === 0) {
    return (
      <>
        {fields}
        {wrong?.length ? <p className="foreign mt-3 text-xs font-medium text-danger">{wrong.map(line).join(' · ')}</p> : null}
      </>
    )
  }
  return (
    <fieldset className="min-w-0 rounded-md border p-3">
      <legend className="foreign px-1 text-sm font-medium">{line(title)}</legend>
      {typeof description === 'string' && <p className="foreign mb-3 text-xs text-muted-fg">{block(description)}</p>}
      {fields}
      {wrong?.length ? <p className="foreign mt-2 text-xs font-medium text-danger">{wrong.map(line).join(' · ')}</p> : null}
    </fieldset>
  )
}

function Items({ title, items, canAdd, onAddClick, schema, rawErrors, required }: ArrayFieldTemplateProps) {
  return (
    <fieldset className="min-w-0 rounded-md border p-3">
      <legend className="foreign px-1 text-sm font-medium">
        {line(title)}
        {required && <span className="text-muted-fg"> · required</span>}
      </legend>
      {schema.description && <p className="foreign mb-2 text-xs text-muted-fg">{block(schema.description)}</p>}
      <ol className="space-y-2">{items}</ol>
      {canAdd && (
        <Button className="mt-2" onClick={onAddClick}>
          <Plus aria-hidden className="size-4" /> Add to {line(title)}
        </Button>
      )}
      {rawErrors?.length ? <p className="foreign mt-2 text-xs font-medium text-danger">{rawErrors.map(line).join(' · ')}</p> : null}
    </fieldset>
  )
}

function Item({ children, buttonsProps: can, index }: ArrayFieldItemTemplateProps) {
  const buttons = [
    can.hasMoveUp && { name: 'Move up', icon: ArrowUp, act: can.onMoveUpItem },
    can.hasMoveDown && { name: 'Move down', icon: ArrowDown, act: can.onMoveDownItem },
    can.hasRemove && { name: 'Remove', icon: Trash2, act: can.onRemoveItem },
  ].filter(button => !!button)
  return (
    <li className="flex items-start gap-2 border-l-2 pl-3">
      <div className="min-w-0 flex-1">{children}</div>
      {buttons.map(({ name, icon: Icon, act }) => (
        <Button key={name} look="quiet" className="px-2" aria-label={`${name}: ${index + 1}`} onClick={act}>
          <Icon aria-hidden className="size-4" />
        </Button>
      ))}
    </li>
  )
}

function Choice({ selector, optionSchemaField }: MultiSchemaFieldTemplateProps) {
  return (
    <div className="space-y-3">
      {selector}
      {optionSchemaField}
    </div>
  )
}

/** A param that the schema does not name can be removed. */
function Additional({ children, onRemoveProperty, label, schema }: WrapIfAdditionalTemplateProps) {
  if (!('__additional_property' in schema)) return <>{children}</>
  return (
    <div className="flex items-start gap-2">
      <div className="min-w-0 flex-1">{children}</div>
      <Button look="quiet" className="px-2" aria-label={`Remove ${line(label)}`} onClick={onRemoveProperty}>
        <Trash2 aria-hidden className="size-4" />
      </Button>
    </div>
  )
}

/** A required text may be empty; an optional one that is emptied is left out. */
const textOf = (text: string, required?: boolean): string | undefined => (text === '' && !required ? undefined : text)

/** Texts and numbers. A number stays a number, and what is no number stays what was typed, and is refused. */
function Input({ id, value, required, schema, options, onChange, rawErrors, autofocus, registry }: BaseInputTemplateProps) {
  const beneath = useContext(Beneath)[String(options.beneath)]
  const isTemplate = options.template === true || (registry.formContext as Context).isTemplated
  const isNumber = schema.type === 'number' || schema.type === 'integer'
  const [typed, setTyped] = useState<string>()
  const given = value === undefined || value === null ? '' : String(value)
  const shown = isNumber && typed !== undefined && numberOf(typed) === value ? typed : given
  // Decided once: a field that became another while somebody types would lose them.
  const [isLong] = useState(!isNumber && (!!options.long || given.includes('\n') || given.length > LONG || (schema.maxLength ?? 0) > 2_000))
  const described = beneath ? `${helpId(id)} ${id}-beneath` : helpId(id)
  const props = { id, autoFocus: autofocus, 'aria-invalid': !!rawErrors?.length, 'aria-describedby': described }
  const change = (text: string) => {
    setTyped(text)
    onChange(isNumber ? numberOf(text) : textOf(text, required))
  }
  if (isTemplate) return <TemplateArea {...props} rows={options.long ? 2 : isLong ? 6 : 1} value={shown} onChange={change} />
  if (isLong)
    return (
      <textarea
        {...props}
        rows={options.long ? 2 : 6}
        value={shown}
        onChange={event => change(event.target.value)}
        className={cx(fieldClass, 'font-mono text-xs')}
      />
    )
  return (
    <>
      <div className="flex items-center gap-2">
        <input
          {...props}
          value={shown}
          list={typeof options.list === 'string' ? options.list : undefined}
          inputMode={isNumber ? 'decimal' : undefined}
          onChange={event => change(event.target.value)}
          className={cx(fieldClass, typeof options.beneath === 'string' && 'font-mono')}
        />
        {typeof options.unit === 'string' && <span className="text-sm text-muted-fg">{line(options.unit)}</span>}
      </div>
      {beneath && <div id={`${id}-beneath`}>{beneath}</div>}
    </>
  )
}

function numberOf(text: string): number | string | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  const number = Number(trimmed)
  return unkept(number) === undefined ? number : text
}

function Select({ id, value, options, onChange, rawErrors, label, required }: WidgetProps) {
  const choices = options.enumOptions ?? []
  const at = choices.findIndex(choice => JSON.stringify(choice.value) === JSON.stringify(value))
  return (
    <select
      id={id}
      value={at < 0 ? '' : String(at)}
      aria-label={id.endsWith('_oneof_select') || id.endsWith('_anyof_select') ? `Kind of ${line(label)}` : undefined}
      aria-invalid={!!rawErrors?.length}
      aria-describedby={helpId(id)}
      onChange={event => onChange(event.target.value === '' ? undefined : choices[Number(event.target.value)]?.value)}
      className={fieldClass}
    >
      {(!required || at < 0) && <option value="">not given</option>}
      {choices.map((choice, index) => (
        <option key={JSON.stringify(choice.value)} value={index}>
          {line(String(choice.label))}
        </option>
      ))}
    </select>
  )
}

/** Yes, no, or not given: a box would make the third of them a no. */
function YesNo(props: WidgetProps) {
  const enumOptions = [
    { value: true, label: 'true' },
    { value: false, label: 'false' },
  ]
  return <Select {...props} options={{ ...props.options, enumOptions }} />
}

/** Where the template around it draws no label. */
function Labelled(props: WidgetProps) {
  return (
    <label htmlFor={props.id} className="foreign block text-sm font-medium">
      {line(props.label)}
      <YesNo {...props} />
    </label>
  )
}

/** Everything that is wrong with a value, and with what is in it. */
const errorsIn = (errors: object | undefined): string[] =>
  Object.entries(errors ?? {}).flatMap(([name, inner]) => (name === '__errors' ? (inner as string[]) : errorsIn(inner as object)))

/** Whatever has no field of its own. */
function Json({ fieldPathId, formData, onChange, registry, rawErrors, errorSchema, name, schema, required }: FieldProps) {
  const { broken, isTemplated } = registry.formContext as Context
  const id = fieldPathId.$id
  const [text, setText] = useState(() => (formData === undefined ? '' : JSON.stringify(formData, null, 2)))
  const [why, setWhy] = useState<string>()
  const typed = (next: string) => {
    setText(next)
    const read = jsonOf(next, schema.type === 'object')
    setWhy(read.why)
    broken(id, read.why !== undefined)
    if (read.why === undefined) onChange(read.value as never, fieldPathId.path)
  }
  const wrong = why === undefined ? [...(rawErrors ?? []), ...errorsIn(errorSchema)] : [why]
  const props = {
    id,
    rows: Math.min(16, Math.max(4, text.split('\n').length)),
    value: text,
    'aria-invalid': wrong.length > 0,
    'aria-describedby': helpId(id),
  }
  return (
    <div>
      <label htmlFor={id} className="foreign mb-1 block text-sm font-medium">
        {line(schema.title ?? name)} <span className="text-muted-fg">· JSON{required && ' · required'}</span>
      </label>
      {isTemplated ? (
        <TemplateArea {...props} onChange={typed} />
      ) : (
        <textarea
          {...props}
          spellCheck={false}
          onChange={event => typed(event.target.value)}
          className={cx(fieldClass, 'font-mono text-xs')}
        />
      )}
      <p id={helpId(id)} className="foreign mt-1 text-xs text-muted-fg">
        {wrong.length > 0 ? (
          <span className="font-medium text-danger">{wrong.map(line).join(' · ')}</span>
        ) : (
          schema.description && block(schema.description)
        )}
      </p>
    </div>
  )
}

/** Texts under names that the schema does not know. */
function Pairs({ fieldPathId, formData, onChange, registry, rawErrors, errorSchema, name, schema, uiSchema }: FieldProps) {
  const { broken } = registry.formContext as Context
  const id = fieldPathId.$id
  const of = String(uiSchema?.['ui:options']?.of)
  const [rows, setRows] = useState<[string, unknown][]>(() => Object.entries((formData ?? {}) as Record<string, unknown>))
  const why = pairsWrong(rows)
  const change = (next: [string, unknown][]) => {
    setRows(next)
    const is = pairsWrong(next) !== undefined
    broken(id, is)
    const named = next.filter(([key]) => key !== '')
    if (!is) onChange((named.length > 0 ? Object.fromEntries(named) : undefined) as never, fieldPathId.path)
  }
  const set = (at: number, row: [string, unknown]) => change(rows.map((old, other) => (other === at ? row : old)))
  const wrong = why === undefined ? (rawErrors ?? []) : [why]
  return (
    <fieldset className="min-w-0 rounded-md border p-3">
      <legend className="foreign px-1 text-sm font-medium">{line(schema.title ?? name)}</legend>
      {schema.description && <p className="foreign mb-2 text-xs text-muted-fg">{block(schema.description)}</p>}
      <ul className="space-y-2">
        {rows.map(([key, value], at) => {
          const told = errorsIn((errorSchema as Record<string, object> | undefined)?.[key])
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: nothing else of a row stays while it is typed
            <li key={at}>
              <div className="flex items-start gap-2">
                <input
                  aria-label={`Name ${at + 1}`}
                  value={key}
                  onChange={event => set(at, [event.target.value, value])}
                  className={cx(fieldClass, 'basis-1/3 font-mono text-xs')}
                />
                <input
                  aria-label={`${of} of ${line(key) || at + 1}`}
                  value={String(value ?? '')}
                  spellCheck={false}
                  aria-invalid={told.length > 0}
                  onChange={event => set(at, [key, event.target.value])}
                  className={cx(fieldClass, 'font-mono text-xs')}
                />
                <Button
                  look="quiet"
                  className="px-2"
                  aria-label={`Remove ${line(key) || at + 1}`}
                  onClick={() => change(rows.filter((_, other) => other !== at))}
                >
                  <Trash2 aria-hidden className="size-4" />
                </Button>
              </div>
              {told.length > 0 && <p className="foreign mt-1 text-xs font-medium text-danger">{told.map(line).join(' · ')}</p>}
            </li>
          )
        })}
      </ul>
      <Button className="mt-2" onClick={() => change([...rows, ['', '']])}>
        <Plus aria-hidden className="size-4" /> Add to {line(schema.title ?? name)}
      </Button>
      {wrong.length > 0 && <p className="foreign mt-2 text-xs font-medium text-danger">{wrong.map(line).join(' · ')}</p>}
    </fieldset>
  )
}

/** A row that is empty on both sides is not there yet. */
function pairsWrong(rows: readonly [string, unknown][]): string | undefined {
  const names = rows.filter(([key, value]) => key !== '' || value !== '').map(([key]) => key)
  if (names.includes('')) return 'Each needs a name.'
  return new Set(names).size < names.length ? 'Two have the same name.' : undefined
}

/** The package's own reads a number from whatever was typed, also one that it cannot keep. `Input` reads numbers here. */
function NumberField(props: FieldProps) {
  const { StringField } = props.registry.fields
  return StringField && <StringField {...props} />
}

const none = () => null

const theme: ThemeProps = {
  fields: { NumberField, json: Json, pairs: Pairs },
  // A date, a colour or a file is a text to a call: no widget rewrites it.
  widgets: {
    TextWidget: Input,
    TextareaWidget: Input,
    PasswordWidget: Input,
    EmailWidget: Input,
    URLWidget: Input,
    DateWidget: Input,
    DateTimeWidget: Input,
    TimeWidget: Input,
    ColorWidget: Input,
    FileWidget: Input,
    UpDownWidget: Input,
    SelectWidget: Select,
    CheckboxWidget: Labelled,
    yesno: YesNo,
  },
  templates: {
    FieldTemplate: Field,
    ObjectFieldTemplate: Group,
    ArrayFieldTemplate: Items,
    ArrayFieldItemTemplate: Item,
    MultiSchemaFieldTemplate: Choice,
    WrapIfAdditionalTemplate: Additional,
    BaseInputTemplate: Input,
    ErrorListTemplate: none,
  },
}

export const Themed = withTheme(theme)
