// A labelled field, with its help, and beside it what became of it: the answer of a test, or why the server refused it.
import { CircleAlert, CircleCheck } from 'lucide-react'
import { type ReactNode, useId } from 'react'
import type { ApiError } from '@/api/client'
import { line } from '@/lib/clean'
import { cx } from './ui'

/** What is told beside a field. `null`: neither good nor bad. */
export type Told = { isGood: boolean | null; text: string; hint?: string; page?: string }

export const toldOf = (error: ApiError): Told => ({
  isGood: false,
  text: error.problem.detail,
  hint: error.problem.hint ?? undefined,
  page: error.problem.type || undefined,
})

type ControlProps = { id: string; 'aria-describedby': string; 'aria-invalid': boolean }

type FieldProps = { label: string; help?: ReactNode; told?: Told; aside?: ReactNode; children: (props: ControlProps) => ReactNode }

export function Field({ label, help, told, aside, children }: FieldProps) {
  const id = useId()
  return (
    <div>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      <div className="flex flex-wrap gap-2">
        <div className="min-w-0 flex-1 basis-48">
          {children({ id, 'aria-describedby': `${id}-help`, 'aria-invalid': told?.isGood === false })}
        </div>
        {aside}
      </div>
      <div id={`${id}-help`} className="mt-1 space-y-1 text-xs text-muted-fg">
        {help && <p>{help}</p>}
        {told && <TellBeside told={told} />}
      </div>
    </div>
  )
}

export function TellBeside({ told }: { told: Told }) {
  const tone = told.isGood === null ? 'text-warn' : told.isGood ? 'text-ok' : 'text-danger'
  const Icon = told.isGood ? CircleCheck : CircleAlert
  return (
    <div role={told.isGood === false ? 'alert' : 'status'} className="text-sm">
      <p className={cx('flex items-start gap-1.5', tone)}>
        <Icon aria-hidden className="mt-0.5 size-4 shrink-0" />
        <span className="foreign">{line(told.text)}</span>
      </p>
      {(told.hint || told.page) && (
        <p className="ml-5.5 text-xs text-muted-fg">
          {told.hint && <span className="foreign">{line(told.hint)} </span>}
          {told.page && (
            <a className="underline" href={told.page}>
              {told.page.split('/').at(-1)}
            </a>
          )}
        </p>
      )}
    </div>
  )
}
