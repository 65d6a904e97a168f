// The params of a call as fields. The server checks them again: these checks only save a round trip.
import { block, line } from '@/lib/clean'
import { type Field, shown } from '@/lib/form'
import { cx, fieldClass } from './ui'

type Props = {
  fields: readonly Field[]
  texts: Record<string, string>
  errors: Record<string, string>
  onChange: (name: string, text: string) => void
}

export function ParamsForm({ fields, texts, errors, onChange }: Props) {
  return (
    <div className="space-y-4">
      {fields.map(field => {
        const id = `param-${field.name}`
        const props = {
          id,
          value: texts[field.name] ?? '',
          'aria-invalid': !!errors[field.name],
          'aria-describedby': `${id}-help`,
          onChange: (event: { target: { value: string } }) => onChange(field.name, event.target.value),
        }
        return (
          <div key={field.name}>
            <label htmlFor={id} className="foreign mb-1 block text-sm font-medium">
              {line(field.label)}
              {field.label !== field.name && <code className="ml-2 text-xs font-normal text-muted-fg">{line(field.name)}</code>}
              {field.required && <span className="text-muted-fg"> · required</span>}
            </label>
            <Control field={field} {...props} />
            <p id={`${id}-help`} className="foreign mt-1 text-xs text-muted-fg">
              {errors[field.name] ? <span className="font-medium text-danger">{line(errors[field.name] ?? '')}</span> : block(field.help)}
            </p>
          </div>
        )
      })}
    </div>
  )
}

type ControlProps = {
  field: Field
  id: string
  value: string
  'aria-invalid': boolean
  'aria-describedby': string
  onChange: (event: { target: { value: string } }) => void
}

function Control({ field, ...props }: ControlProps) {
  switch (field.kind) {
    case 'boolean':
    case 'choice': {
      const choices = field.kind === 'boolean' ? [true, false] : field.choices
      return (
        <select {...props} className={fieldClass}>
          <option value="">not given</option>
          {choices.map(choice => (
            <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
              {shown({ ...field, kind: typeof choice === 'string' ? 'text' : 'json' }, choice)}
            </option>
          ))}
        </select>
      )
    }
    case 'lines':
      return <textarea {...props} rows={6} className={cx(fieldClass, 'font-mono text-xs')} />
    case 'json':
      return <textarea {...props} rows={4} spellCheck={false} className={cx(fieldClass, 'font-mono text-xs')} placeholder="JSON" />
    case 'number':
    case 'integer':
      return <input {...props} inputMode="decimal" className={fieldClass} />
    case 'text':
      return <input {...props} className={fieldClass} />
  }
}
