// One step: which action, with which params. The params have the fields of the action's own schema, and any of them may be a template.
import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import type { Json, Mistake } from '@/api/types'
import { Field } from '@/components/field'
import { SchemaForm } from '@/components/schema-form'
import { Templates } from '@/components/schema-form/around'
import { insertInto, type TextField } from '@/components/schema-form/insert'
import { ModeWord, TierBadge } from '@/components/status'
import { Button, Foreign, fieldClass } from '@/components/ui'
import { actionQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { CardVerbs, type Verbs } from './card-verbs'
import { asErrors, FILTERS, holesOf, isTemplate, mistakesUnder, namesFor, pick, type Step, told, withHoles } from './model'
import { Part } from './part'
import { Fold } from './parts'
import { TemplateNames } from './template-names'

type Props = {
  schema: Json
  root: Json
  definition: Json
  where: 'plan' | 'on_failure'
  at: number
  step: Step
  mistakes: readonly Mistake[]
  onChange: (step: Step) => void
  verbs: Verbs
}

const FIRST = ['step_id', 'when', 'output_as']
const NOT_MORE = [...FIRST, 'action', 'config']

export function StepCard({ schema, root, definition, where, at, step, mistakes, onChange, verbs }: Props) {
  const card = useRef<HTMLElement>(null)
  const lastField = useRef<TextField>(null)
  const action = useQuery({ ...actionQuery(step.action), enabled: step.action.includes('.') })
  // Who comes back to an action finds its params again.
  const params = useRef<Record<string, Json>>({})
  const acts = (next: string) => {
    params.current[step.action] = step.config ?? {}
    // Params of another action are of no use: they would be sent along.
    set({ action: next, config: params.current[next] ?? {} })
  }
  const names = namesFor(definition, where, at)
  const insert = (text: string) => {
    // A field of params that are not shown any more is none of this card.
    if (lastField.current && card.current?.contains(lastField.current)) insertInto(lastField.current, text)
  }
  const name = `${where}-${at}`
  const set = (more: Json) => onChange({ ...step, ...more } as Step)
  const atAction = mistakes.find(each => each.pointer === '/action')
  const isIn = (names: readonly string[]) => (each: Mistake) => names.includes(each.pointer.split('/')[1] ?? '')
  return (
    <section
      ref={card}
      aria-label={`Step ${step.step_id}`}
      className="rounded-md border bg-panel p-3"
      onFocus={event => {
        const field = event.target
        if (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) lastField.current = field
      }}
    >
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h3 className="text-sm font-semibold">
          {at + 1}. <Foreign text={step.step_id} />
        </h3>
        {action.data && (
          <>
            <TierBadge tier={action.data.tier} /> <ModeWord mode={action.data.mode} className="text-xs" />
          </>
        )}
        <CardVerbs name={step.step_id} verbs={verbs} />
      </div>
      <div className="space-y-4">
        <ActionField action={step.action} wrong={atAction && told(atAction)} about={action.data?.title} onChange={acts} />
        <Templates value={{ names, filters: FILTERS }}>
          <Config
            key={step.action}
            name={`${name}-config`}
            step={step}
            schema={action.data?.params_schema}
            isKnown={!action.isLoading}
            mistakes={mistakes}
            onChange={config => set({ config })}
          />
          <TemplateNames names={names} onPick={insert} />
          <Part
            name={name}
            schema={root}
            part={pick(schema, FIRST)}
            value={step}
            mistakes={mistakes.filter(isIn(FIRST))}
            onChange={next => onChange(next as Step)}
          />
        </Templates>
        <Fold title="Retries and time" open={mistakes.some(each => !isIn(NOT_MORE)(each) && each.pointer !== '')}>
          <Part
            name={`${name}-more`}
            schema={root}
            part={pick(schema, NOT_MORE, true)}
            value={step}
            mistakes={mistakes.filter(each => !isIn(NOT_MORE)(each))}
            onChange={next => onChange(next as Step)}
          />
        </Fold>
      </div>
    </section>
  )
}

function ActionField({
  action,
  about,
  wrong,
  onChange,
}: {
  action: string
  about: string | undefined
  wrong: string | undefined
  onChange: (action: string) => void
}) {
  const [typed, setTyped] = useState(action)
  return (
    <Field label="Action" help={about && line(about)} told={wrong ? { isGood: false, text: wrong } : undefined}>
      {props => (
        <input
          {...props}
          value={typed}
          list="action-ids"
          placeholder="source.action"
          spellCheck={false}
          autoCapitalize="off"
          onChange={event => {
            setTyped(event.target.value)
            if (event.target.value.trim() !== action) onChange(event.target.value.trim())
          }}
          className={`${fieldClass} font-mono`}
        />
      )}
    </Field>
  )
}

type ConfigProps = {
  name: string
  step: Step
  schema: Json | undefined
  isKnown: boolean
  mistakes: readonly Mistake[]
  onChange: (config: Json) => void
}

/** The params. Where only a list, an object or a yes and no fits, a template needs a text in its place. */
function Config({ name, step, schema, isKnown, mistakes, onChange }: ConfigProps) {
  const config = step.config ?? {}
  const [drawn, setDrawn] = useState(0)
  const holes = holesOf(schema)
  const redraw = (next: Json) => {
    setDrawn(drawn + 1)
    onChange(next)
  }
  if (!isKnown) return null
  if (!schema && Object.keys(config).length === 0) return <p className="text-muted-fg">Choose an action, and its params are here.</p>
  return (
    <fieldset className="min-w-0">
      <legend className="mb-2 text-sm font-medium">Params</legend>
      <Params
        key={`${drawn} ${schema ? 'known' : ''}`}
        name={name}
        schema={schema}
        config={config}
        mistakes={mistakes}
        onChange={onChange}
      />
      {holes.length > 0 && (
        <p className="mt-2 flex flex-wrap items-center gap-2 text-xs text-muted-fg">
          {holes.map(hole =>
            isTemplate(config[hole]) ? (
              <Button key={hole} look="quiet" className="min-h-7 text-xs" onClick={() => redraw({ ...config, [hole]: undefined })}>
                {line(hole)}: a fixed value instead
              </Button>
            ) : (
              <Button key={hole} look="quiet" className="min-h-7 text-xs" onClick={() => redraw({ ...config, [hole]: '{{ }}' })}>
                {line(hole)}: a template instead
              </Button>
            ),
          )}
        </p>
      )}
    </fieldset>
  )
}

function Params({ name, schema, config, mistakes, onChange }: Omit<ConfigProps, 'step' | 'isKnown'> & { config: Json }) {
  const [form] = useState(() => ({ schema: withHoles(schema, config), params: config }))
  return (
    <SchemaForm
      name={name}
      isTemplated
      schema={form.schema}
      params={form.params}
      showErrors={false}
      refused={asErrors(mistakesUnder(mistakes, '/config'))}
      onChange={onChange}
    />
  )
}
