// Which of the latest events a trigger's filter accepts. Nothing is saved, and nothing starts.
import { useState } from 'react'
import { api, body } from '@/api/client'
import type { Json, Schemas } from '@/api/types'
import { Button, cx, Failed, Foreign, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { unkept, unkeptInWords } from '@/lib/digits'
import { counted } from '@/lib/format'
import { useSending } from '@/lib/sending'
import { Mistakes } from './parts'

type Tested = Schemas['TestFilterResponse']
type Props = { eventType: string; filters: unknown; space: string | undefined }

export function FilterTest({ eventType, filters, space }: Props) {
  const { error, busy, run } = useSending()
  const [tested, setTested] = useState<{ of: string; told: Tested }>()
  const of = JSON.stringify([eventType, filters, space])
  const test = () =>
    run('it', async () => {
      const asked = { body: { event_type: eventType, filters: filters as Json | undefined, space } }
      setTested({ of, told: await body(api.POST('/api/v1/filters/test', asked)) })
    })
  const mistakes = error?.problem.mistakes ?? []
  const lost = unkept(filters)
  if (lost !== undefined) return <p className="mt-2 text-sm text-warn">{unkeptInWords(lost)} It cannot be tried here.</p>
  // What was told of another filter says nothing of this one.
  const told = tested?.of === of ? tested.told : undefined
  return (
    <div className="mt-2 text-sm">
      <Button busy={!!busy} onClick={() => void test()}>
        Try it on the latest events
      </Button>
      {error && (mistakes.length > 0 ? <Mistakes title="What is wrong with it" mistakes={mistakes} /> : <Failed error={error} />)}
      {told && (
        <div aria-live="polite" className="mt-2">
          <p className="font-medium">
            {told.events.length === 0
              ? 'There was no event of this type lately that would start it.'
              : `It accepts ${told.matching} of the latest ${counted(told.events.length, 'event')}.`}
          </p>
          <ol aria-label="The latest events" className="mt-1 max-h-72 divide-y overflow-auto rounded-md border empty:hidden">
            {told.events.map(event => (
              <li key={event.cursor} className="grid gap-x-3 px-3 py-1.5 text-xs sm:grid-cols-[6rem_minmax(0,1fr)_auto]">
                <span className={cx('font-medium', event.matches ? 'text-ok' : 'text-muted-fg')}>
                  {event.matches ? '✓ accepted' : '– not'}
                </span>
                <span className="min-w-0">
                  <code>{line(event.type)}</code> <Foreign text={event.subject} />
                  {!event.matches && (
                    <span className="foreign block text-muted-fg">
                      {event.unmet.length > 0
                        ? `does not satisfy ${event.unmet.map(line).join(', ')}`
                        : 'nothing in it satisfies all members of the filter together'}
                    </span>
                  )}
                </span>
                <span className="text-muted-fg">
                  <When at={event.time} />
                </span>
              </li>
            ))}
          </ol>
        </div>
      )}
    </div>
  )
}
