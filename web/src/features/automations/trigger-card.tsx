// One trigger of a definition. Its fields are those of its type.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Json, Mistake } from '@/api/types'
import { Beneath } from '@/components/schema-form/around'
import { line } from '@/lib/clean'
import { CardVerbs, type Verbs } from './card-verbs'
import { FilterTest } from './filter-test'
import { mistakesUnder, partOf, pick, type Trigger, told } from './model'
import { NextFirings, type Planned } from './next-firings'
import { Part } from './part'
import { Fold } from './parts'

type Props = {
  schema: Json
  /** Where the automation acts. */
  space: string | undefined
  trigger: Trigger
  /** When it fires, if it is a schedule and nothing in the definition is wrong. */
  planned: Planned | undefined
  name: string
  mistakes: readonly Mistake[]
  onChange: (trigger: Trigger) => void
  verbs: Verbs
}

/** What a person fills in first; the rest is folded away. */
const FIRST: Record<Trigger['type'], readonly string[]> = {
  schedule: ['cron', 'timezone'],
  webhook: [],
  event: ['event_type', 'filters'],
}

export function TriggerCard({ schema, space, trigger, planned, name, mistakes, onChange, verbs }: Props) {
  const config = trigger.config ?? {}
  const part = partOf(schema, trigger.type)
  const [first] = useState(FIRST[trigger.type] ?? [])
  const inConfig = mistakesUnder(mistakes, '/config')
  const own = mistakes.filter(each => !each.pointer.startsWith('/config'))
  const configured = (next: Json) => onChange({ ...trigger, config: next })
  const isFirst = (pointer: string) => first.includes(pointer.split('/')[1] ?? '')
  return (
    <section aria-label={`Trigger ${trigger.trigger_id ?? trigger.type}`} className="rounded-md border bg-panel p-3">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h3 className="text-sm font-semibold">{trigger.type}</h3>
        <code className="text-xs text-muted-fg">{line(trigger.trigger_id ?? '')}</code>
        <CardVerbs name={trigger.trigger_id ?? trigger.type} verbs={verbs} />
      </div>
      {own.map(each => (
        <p key={`${each.pointer}${each.code}`} className="foreign mb-2 text-xs font-medium text-danger">
          {line(told(each))}
        </p>
      ))}
      {first.length > 0 && (
        <Beneath value={{ cron: <NextFirings planned={planned} /> }}>
          <Part
            name={name}
            schema={schema}
            part={pick(part, first)}
            value={config}
            mistakes={inConfig.filter(each => isFirst(each.pointer))}
            onChange={configured}
          />
        </Beneath>
      )}
      {trigger.type === 'event' && typeof config.event_type === 'string' && config.event_type && (
        <>
          <p className="mt-2 text-xs">
            <Link to="/events" search={{ type: config.event_type.replace(/\.\*$/, '') }} target="_blank" className="text-primary underline">
              Events of this type that there were lately
            </Link>
          </p>
          <FilterTest eventType={config.event_type} filters={config.filters} space={space} />
        </>
      )}
      {trigger.type === 'webhook' && (
        <p className="text-muted-fg">Saving it shows its token, once. With a signature it has none: you name the secret that signs.</p>
      )}
      <div className="mt-3">
        <Fold title="More" open={inConfig.some(each => !isFirst(each.pointer))}>
          <Part
            name={`${name}-more`}
            schema={schema}
            part={pick(part, first, true)}
            value={config}
            mistakes={inConfig.filter(each => !isFirst(each.pointer))}
            onChange={configured}
          />
        </Fold>
      </div>
    </section>
  )
}
