// Starting a run by hand: with its inputs, and then to the page of the new run.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Json, Mistake, Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { SchemaForm } from '@/components/schema-form'
import { useToasts } from '@/components/toasts'
import { reasonInWords } from '@/features/automations/firings'
import { unkept, unkeptInWords } from '@/lib/digits'
import { hasInputs } from './inputs'

type Fired = Schemas['FiredResponse']

/** Goes to the run that was started, or says why there is none. */
export function useFired(): (fired: Fired) => void {
  const navigate = useNavigate()
  const { say } = useToasts()
  return fired => {
    if (fired.outcome === 'started' && fired.run_id) void navigate({ to: '/runs/$run', params: { run: fired.run_id } })
    else say(`Nothing was started: ${reasonInWords(fired.reason)}`)
  }
}

type Props = {
  title: string
  verb: string
  schema: Json
  inputs: Json
  about?: string
  start: (inputs: Json) => Promise<Fired>
  onClose: () => void
}

export function StartDialog({ title, verb, schema, inputs, about, start, onClose }: Props) {
  const fired = useFired()
  const [form] = useState({ schema, inputs })
  const [given, setGiven] = useState(inputs)
  const lost = unkept(form.inputs)
  const [mistakes, setMistakes] = useState<readonly Mistake[]>([])
  const send = async () => {
    setMistakes([])
    try {
      const done = await start(given)
      onClose()
      fired(done)
    } catch (cause) {
      if (cause instanceof ApiError) setMistakes(cause.problem.mistakes ?? [])
      throw cause
    }
  }
  return (
    <FormDialog title={title} verb={verb} wide send={send} onClose={onClose}>
      {lost !== undefined ? (
        <p>{unkeptInWords(lost)} So the inputs stay as they are; others are given with countersign run rerun.</p>
      ) : hasInputs(form.schema) ? (
        <SchemaForm name="input" schema={form.schema} params={form.inputs} showErrors={false} refused={mistakes} onChange={setGiven} />
      ) : (
        <p>It takes no inputs.</p>
      )}
      {about && hasInputs(form.schema) && <p className="text-muted-fg">{about}</p>}
      <p className="text-muted-fg">Steps that need a person wait for one, as always.</p>
    </FormDialog>
  )
}
