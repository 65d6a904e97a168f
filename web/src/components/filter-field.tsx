// A filter that the server takes as a whole word. It is applied with Enter, or when the field is left: half an id would only be refused.
import { useEffect, useId, useState } from 'react'
import { fieldClass } from './ui'

type Props = {
  label: string
  placeholder: string
  value: string | undefined
  options?: readonly string[]
  onApply: (value: string) => void
}

export function FilterField({ label, placeholder, value = '', options, onApply }: Props) {
  const list = useId()
  const [text, setText] = useState(value)
  // A link or a button may have set another one.
  useEffect(() => setText(value), [value])
  const apply = () => {
    if (text.trim() !== value) onApply(text.trim())
  }
  return (
    <>
      <input
        aria-label={label}
        placeholder={`${placeholder}, then Enter`}
        list={options && list}
        value={text}
        spellCheck={false}
        autoCapitalize="off"
        onChange={event => setText(event.target.value)}
        onKeyDown={event => event.key === 'Enter' && apply()}
        onBlur={apply}
        className={fieldClass}
      />
      {options && (
        <datalist id={list}>
          {options.map(each => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </>
  )
}
