// How long the org keeps what stands beside its audit log.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import type { ApiError } from '@/api/client'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Failed, fieldClass, Loading } from '@/components/ui'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { KEPT, wholeNumber } from './model'
import { type Retention, retentionQuery, setRetention } from './queries'

export function Retained() {
  const read = useQuery(retentionQuery)
  if (read.error) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  if (!read.data) return <Loading />
  // Another form for other values: what was typed is of the old ones.
  return <Form key={JSON.stringify(read.data)} now={read.data} />
}

function Form({ now }: { now: Retention }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const mayManage = useMay().includes('manage_policy')
  const [texts, setTexts] = useState(() => Object.fromEntries(KEPT.map(({ name }) => [name, now[name] == null ? '' : String(now[name])])))
  const { error, busy, run } = useSending()
  const numbers = Object.fromEntries(KEPT.map(({ name }) => [name, wholeNumber(texts[name] ?? '')]))
  const isBad = KEPT.some(({ name }) => numbers[name] === undefined)
  const isSame = KEPT.every(({ name }) => (now[name] ?? null) === numbers[name])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void run('it', async () => {
      const set = await setRetention(numbers as Retention)
      client.setQueryData(retentionQuery.queryKey, set)
      say('Set, and signed into the audit log.')
    })
  }
  const flags = KEPT.flatMap(({ name, flag }) => (numbers[name] == null ? [] : [`${flag} ${numbers[name]}`]))
  return (
    <form onSubmit={submit} className="max-w-2xl space-y-4 px-4 py-4 md:px-6">
      <p className="text-muted-fg">The audit log is never cut: every receipt stays, and verifies. This is about what stands beside it.</p>
      {KEPT.map(({ name, label, unit, without, goes }) => (
        <label key={name} className="block">
          <span className="font-medium">{label}</span>
          <span className="mt-1 flex items-center gap-2">
            <input
              inputMode="numeric"
              value={texts[name] ?? ''}
              placeholder={without}
              readOnly={!mayManage}
              aria-invalid={numbers[name] === undefined}
              onChange={event => setTexts(old => ({ ...old, [name]: event.target.value }))}
              className={cx(fieldClass, 'max-w-48', numbers[name] === undefined && 'border-danger')}
            />
            {unit}
          </span>
          <span className="block text-xs text-muted-fg">
            {numbers[name] === undefined ? <span className="text-danger">A whole number, or nothing. </span> : null}
            Then: {goes}
          </span>
        </label>
      ))}
      {error && <Failed error={error} />}
      <div className="flex flex-wrap items-center gap-4">
        {mayManage ? (
          <Button look="primary" type="submit" busy={!!busy} disabled={isBad || isSame}>
            Set
          </Button>
        ) : (
          <p className="text-muted-fg">Somebody with the permission manage_policy sets it.</p>
        )}
        <Copy text={['countersign org retention', ...flags].join(' ')} className="max-w-full" />
      </div>
    </form>
  )
}
