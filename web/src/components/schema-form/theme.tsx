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
import { useState } from 'react'
import { Button, cx, fieldClass } from '@/components/ui'
import { block, line } from '@/lib/clean'

/** What a field needs to know of the form: which of its texts are no JSON. */
export type Context = { broken: (id: string, is: boolean) => void }

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
function Input({ id, value, required, schema, options, onChange, rawErrors, autofocus }: BaseInputTemplateProps) {
  const isNumber = schema.type === 'number' || schema.type === 'integer'
  const [typed, setTyped] = useState<string>()
  const given = value === undefined || value === null ? '' : String(value)
  const shown = isNumber && typed !== undefined && numberOf(typed) === value ? typed : given
  // Decided once: a field that became another while somebody types would lose them.
  const [isLong] = useState(!isNumber && (!!options.long || given.includes('\n') || given.length > LONG || (schema.maxLength ?? 0) > 2_000))
  const props = { id, autoFocus: autofocus, 'aria-invalid': !!rawErrors?.length, 'aria-describedby': helpId(id) }
  if (isLong)
    return (
      <textarea
        {...props}
        rows={options.long ? 2 : 6}
        value={shown}
        onChange={event => onChange(textOf(event.target.value, required))}
        className={cx(fieldClass, 'font-mono text-xs')}
      />
    )
  return (
    <input
      {...props}
      value={shown}
      list={typeof options.list === 'string' ? options.list : undefined}
      inputMode={isNumber ? 'decimal' : undefined}
      onChange={event => {
        setTyped(event.target.value)
        onChange(isNumber ? numberOf(event.target.value) : textOf(event.target.value, required))
      }}
      className={fieldClass}
    />
  )
}

function numberOf(text: string): number | string | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : text
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

/** Whatever has no field of its own. */
function Json({ fieldPathId, formData, onChange, registry, rawErrors, name, schema, required }: FieldProps) {
  const { broken } = registry.formContext as Context
  const id = fieldPathId.$id
  const [text, setText] = useState(() => (formData === undefined ? '' : JSON.stringify(formData, null, 2)))
  const [isBroken, setBroken] = useState(false)
  const typed = (next: string) => {
    setText(next)
    let value: unknown
    let is = false
    try {
      value = next.trim() === '' ? undefined : JSON.parse(next)
    } catch {
      is = true
    }
    setBroken(is)
    broken(id, is)
    if (!is) onChange(value as never, fieldPathId.path)
  }
  return (
    <div>
      <label htmlFor={id} className="foreign mb-1 block text-sm font-medium">
        {line(schema.title ?? name)} <span className="text-muted-fg">· JSON{required && ' · required'}</span>
      </label>
      <textarea
        id={id}
        rows={4}
        spellCheck={false}
        value={text}
        aria-invalid={isBroken || !!rawErrors?.length}
        aria-describedby={helpId(id)}
        onChange={event => typed(event.target.value)}
        className={cx(fieldClass, 'font-mono text-xs')}
      />
      <p id={helpId(id)} className="foreign mt-1 text-xs text-muted-fg">
        {isBroken || rawErrors?.length ? (
          <span className="font-medium text-danger">{isBroken ? 'Not JSON' : rawErrors?.map(line).join(' · ')}</span>
        ) : (
          schema.description && block(schema.description)
        )}
      </p>
    </div>
  )
}

const none = () => null

const theme: ThemeProps = {
  fields: { json: Json },
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
