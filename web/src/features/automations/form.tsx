// A definition as a form, made of its published schema. Each step and each trigger is a form of its own, so that typing stays light.
import { Plus } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import type { Json, Mistake } from '@/api/types'
import { Button, Section } from '@/components/ui'
import type { Verbs } from './card-verbs'
import {
  metadataForm,
  metadataOf,
  metadataPart,
  mistakesUnder,
  moved,
  partOf,
  pick,
  type Step,
  type Trigger,
  triggerIds,
  unusedName,
} from './model'
import type { Planned } from './next-firings'
import { Part } from './part'
import { Fold } from './parts'
import { StepCard } from './step-card'
import { TriggerCard } from './trigger-card'

type Props = {
  schema: Json
  /** Where it acts; what the server takes if it is not said. */
  space: string | undefined
  definition: Json
  mistakes: readonly Mistake[]
  /** When its schedules fire, as far as the server has said so. */
  planned: readonly Planned[]
  onChange: (definition: Json) => void
}

export function DefinitionForm({ schema, space, definition, mistakes, planned, onChange }: Props) {
  const triggers = (definition.triggers as Trigger[] | undefined) ?? []
  const plan = (definition.plan as Step[] | undefined) ?? []
  const execution = (definition.execution as Json | undefined) ?? {}
  const after = (execution.on_failure as Step[] | undefined) ?? []
  const ids = [...plan, ...after].map(step => step.step_id)
  const triggerNames = triggerIds(triggers)
  const set = (more: Json) => onChange({ ...definition, ...more })
  const partAt = (name: string) => ((schema.properties as Json)[name] ?? {}) as Json
  return (
    <div className="max-w-3xl">
      <Part name="basic" schema={schema} part={pick(schema, ['name', 'goal'])} value={definition} mistakes={mistakes} onChange={onChange} />

      <Section title="What starts it">
        <Cards
          list={triggers}
          onChange={next => set({ triggers: next })}
          draw={(trigger, at, change, verbs) => (
            <TriggerCard
              schema={schema}
              space={space}
              trigger={trigger}
              planned={planned.find(each => each.schedule.trigger_id === triggerNames[at])}
              name={`trigger-${at}`}
              mistakes={mistakesUnder(mistakes, `/triggers/${at}`)}
              onChange={change}
              verbs={verbs}
            />
          )}
        />
        {triggers.length === 0 && <p className="mb-2 text-muted-fg">Without a trigger, only people start it.</p>}
        <div className="flex flex-wrap gap-2">
          {(['schedule', 'webhook', 'event'] as const).map(type => (
            <Button
              key={type}
              onClick={() =>
                set({
                  triggers: [
                    ...triggers,
                    {
                      trigger_id: unusedName(
                        type,
                        triggers.flatMap(each => each.trigger_id ?? []),
                      ),
                      type,
                      config: STARTS[type],
                    },
                  ],
                })
              }
            >
              <Plus aria-hidden className="size-4" /> {type}
            </Button>
          ))}
        </div>
      </Section>

      <Section title="Inputs">
        <Fold title="What a run is given" open={mistakesUnder(mistakes, '/inputs').length > 0}>
          <Part
            name="inputs"
            schema={schema}
            part={partAt('inputs')}
            value={(definition.inputs as Json | undefined) ?? {}}
            mistakes={mistakesUnder(mistakes, '/inputs')}
            onChange={inputs => set({ inputs })}
          />
        </Fold>
      </Section>

      <Section title="Steps, in order">
        <Steps list={plan} where="plan" place="/plan" {...{ schema, definition, mistakes, ids }} onChange={next => set({ plan: next })} />
      </Section>

      <Section title="After a failure">
        <p className="mb-2 text-muted-fg">They run once after a step failed or the run took too long.</p>
        <Steps
          list={after}
          where="on_failure"
          place="/execution/on_failure"
          {...{ schema, definition, mistakes, ids }}
          onChange={next => set({ execution: { ...execution, on_failure: next } })}
        />
      </Section>

      <Section title="How it runs">
        <Fold
          title="Time, retries, several at once"
          open={mistakesUnder(mistakes, '/execution').some(each => !each.pointer.startsWith('/on_failure'))}
        >
          <Part
            name="execution"
            schema={schema}
            part={pick(partAt('execution'), ['on_failure'], true)}
            value={execution}
            mistakes={mistakesUnder(mistakes, '/execution')}
            onChange={next => set({ execution: next })}
          />
        </Fold>
      </Section>

      <Section title="What helps to find it">
        <Fold title="Tags and notes" open={mistakesUnder(mistakes, '/metadata').length > 0}>
          <Part
            name="metadata"
            schema={schema}
            part={metadataPart(partAt('metadata'))}
            value={metadataForm((definition.metadata as Json | undefined) ?? {})}
            mistakes={mistakesUnder(mistakes, '/metadata')}
            onChange={form => set({ metadata: metadataOf(form) })}
          />
        </Fold>
      </Section>
    </div>
  )
}

const STARTS: Record<Trigger['type'], Json> = {
  schedule: { cron: '0 9 * * 1-5', timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' },
  webhook: {},
  event: { event_type: '' },
}

/** A list of cards that can be moved, copied and removed. Every such change draws them anew; typing in one does not. */
function Cards<T>({
  list,
  onChange,
  copy,
  draw,
}: {
  list: readonly T[]
  onChange: (list: T[]) => void
  copy?: (one: T) => T
  draw: (one: T, at: number, change: (one: T) => void, verbs: Verbs) => ReactNode
}) {
  const [drawn, setDrawn] = useState(0)
  const arranged = (next: T[]) => {
    setDrawn(drawn + 1)
    onChange(next)
  }
  return (
    <ol className="mb-3 space-y-3 empty:hidden">
      {list.map((one, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: what is moved is drawn anew
        <li key={`${drawn} ${at}`}>
          {draw(one, at, next => onChange(list.map((each, other) => (other === at ? next : each))), {
            onUp: at > 0 ? () => arranged(moved(list, at, -1)) : undefined,
            onDown: at < list.length - 1 ? () => arranged(moved(list, at, 1)) : undefined,
            onCopy: copy && (() => arranged([...list.slice(0, at + 1), copy(one), ...list.slice(at + 1)])),
            onRemove: () => arranged(list.filter((_, other) => other !== at)),
          })}
        </li>
      ))}
    </ol>
  )
}

type StepsProps = {
  list: readonly Step[]
  where: 'plan' | 'on_failure'
  place: string
  schema: Json
  definition: Json
  mistakes: readonly Mistake[]
  ids: readonly string[]
  onChange: (list: Step[]) => void
}

function Steps({ list, where, place, schema, definition, mistakes, ids, onChange }: StepsProps) {
  return (
    <>
      <Cards
        list={list}
        onChange={onChange}
        copy={step => ({ ...step, step_id: unusedName(step.step_id, ids), output_as: undefined })}
        draw={(step, at, change, verbs) => (
          <StepCard
            schema={partOf(schema, 'step')}
            root={schema}
            definition={definition}
            where={where}
            at={at}
            step={step}
            mistakes={mistakesUnder(mistakes, `${place}/${at}`)}
            onChange={change}
            verbs={verbs}
          />
        )}
      />
      <Button
        onClick={() => onChange([...list, { step_id: unusedName(where === 'plan' ? 'step' : 'alarm', ids), action: '', config: {} }])}
      >
        <Plus aria-hidden className="size-4" /> Step
      </Button>
    </>
  )
}
