// A plain text field with the numbers of its lines, and a mark at each line that is wrong.
import type { Ref } from 'react'
import type { Schemas } from '@/api/types'
import { cx } from '@/components/ui'
import { line } from '@/lib/clean'

const LINES_MIN = 12

type Props = {
  ref: Ref<HTMLTextAreaElement>
  label: string
  value: string
  onChange: (value: string) => void
  readOnly: boolean
  errors: readonly Schemas['FieldError'][]
}

export function Editor({ ref, label, value, onChange, readOnly, errors }: Props) {
  const count = Math.max(LINES_MIN, value.split('\n').length + 1)
  return (
    // The field is as high as its text, so the numbers never have to follow it.
    <div className="flex max-h-[55vh] overflow-y-auto rounded-md rounded-tl-none border bg-panel font-mono text-[13px] leading-5 focus-within:outline-2 focus-within:outline-primary">
      <ol aria-hidden className="shrink-0 border-r bg-muted py-2 text-right text-muted-fg select-none">
        {Array.from({ length: count }, (_, at) => {
          const wrong = errors.find(error => error.line === at + 1)
          return (
            <li
              // biome-ignore lint/suspicious/noArrayIndexKey: a line is its number
              key={at}
              title={wrong && line(wrong.message)}
              className={cx('h-5 min-w-10 px-2', wrong && 'bg-removed font-medium text-danger')}
            >
              {wrong ? `! ${at + 1}` : at + 1}
            </li>
          )
        })}
      </ol>
      <textarea
        ref={ref}
        aria-label={label}
        aria-invalid={errors.length > 0}
        value={value}
        onChange={event => onChange(event.target.value)}
        readOnly={readOnly}
        rows={count}
        wrap="off"
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        className="min-w-0 flex-1 resize-none overflow-x-auto overflow-y-hidden bg-transparent px-3 py-2 leading-5 outline-none"
      />
    </div>
  )
}
