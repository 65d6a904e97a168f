// A value that is typed unseen, or read from a file. It is sent once, and nothing ever shows it again.
import { useRef, useState } from 'react'
import { Field } from '@/components/field'
import { Button, fieldClass } from '@/components/ui'
import { valueOfFile } from './model'

type Props = { label: string; value: string; help?: string; onChange: (value: string) => void }

export function ValueField({ label, value, help, onChange }: Props) {
  const chooser = useRef<HTMLInputElement>(null)
  const [file, setFile] = useState<string>()
  const pick = async (chosen: File | undefined) => {
    if (!chosen) return
    onChange(valueOfFile(await chosen.text()))
    setFile(chosen.name)
  }
  return (
    <Field
      label={label}
      help={file && value ? `Read from ${file}.` : help}
      aside={
        <>
          <Button onClick={() => chooser.current?.click()}>From a file</Button>
          <input ref={chooser} type="file" hidden onChange={event => void pick(event.target.files?.[0])} />
        </>
      }
    >
      {props => (
        <input
          {...props}
          type="password"
          autoComplete="new-password"
          spellCheck={false}
          value={value}
          onChange={event => {
            onChange(event.target.value)
            setFile(undefined)
          }}
          className={fieldClass}
        />
      )}
    </Field>
  )
}
