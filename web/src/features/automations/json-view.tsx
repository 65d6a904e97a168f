// The definition as text. Each mistake of the server stands at its line.
import { useState } from 'react'
import type { Json, Mistake } from '@/api/types'
import { Editor as TextEditor } from '@/features/policies/editor'
import { line } from '@/lib/clean'
import { lineOf, parsed, told } from './model'

type Props = {
  definition: Json
  /** What was typed, where it is no definition. */
  text: string | undefined
  mistakes: readonly Mistake[]
  onChange: (definition: Json) => void
  onBroken: (text: string) => void
}

export function JsonView({ definition, text, mistakes, onChange, onBroken }: Props) {
  const [typed, setTyped] = useState(text ?? JSON.stringify(definition, null, 2))
  const read = parsed(typed)
  const isBroken = typeof read === 'string'
  // Lines are those of the usual form: a text in another form has its marks in the list beside it only.
  const isUsual = !isBroken && JSON.stringify(read, null, 2) === typed
  const errors = isUsual ? mistakes.map(each => ({ pointer: each.pointer, message: told(each), line: lineOf(read, each.pointer) })) : []
  return (
    <>
      <TextEditor
        ref={null}
        label="Definition"
        value={typed}
        readOnly={false}
        errors={errors}
        onChange={next => {
          setTyped(next)
          const value = parsed(next)
          if (typeof value === 'string') onBroken(next)
          else onChange(value)
        }}
      />
      <p role="status" className={`mt-2 text-sm ${isBroken ? 'text-danger' : 'text-muted-fg'}`}>
        {isBroken ? line(read) : 'The form and this text are one document.'}
      </p>
    </>
  )
}
