// A call made by hand, with the fields of the action's own schema. The dry run comes first.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Action, Json, Schemas } from '@/api/types'
import { Changes, Pre } from '@/components/changes'
import { SchemaForm } from '@/components/schema-form'
import { StatusBadge } from '@/components/status'
import { Button, Failed } from '@/components/ui'
import { json } from '@/lib/clean'
import { useSending } from '@/lib/sending'
import { tryOut } from './queries'

const NOTHING: Json = {}

export function Try({ action }: { action: Action }) {
  const [params, setParams] = useState<Json>(NOTHING)
  const [isGood, setGood] = useState(false)
  const [tried, setTried] = useState(false)
  const { error, busy, run: sending } = useSending<'dry' | 'real'>()
  const [done, setDone] = useState<Schemas['InvokeResponse']>()
  const run = async (isDryRun: boolean) => {
    setTried(true)
    if (!isGood) return
    await sending(isDryRun ? 'dry' : 'real', async () => setDone(await tryOut(action.id, params, isDryRun)))
  }
  return (
    <div className="rounded-md border bg-panel p-4">
      <SchemaForm
        schema={action.params_schema}
        params={NOTHING}
        showErrors={tried}
        refused={error?.problem.errors}
        onChange={setParams}
        onChecked={setGood}
      />
      <div className="mt-4 flex flex-wrap gap-2">
        {action.dry_run_supported && (
          <Button look="primary" busy={busy === 'dry'} disabled={!!busy} onClick={() => void run(true)}>
            Dry run
          </Button>
        )}
        <Button busy={busy === 'real'} disabled={!!busy} onClick={() => void run(false)}>
          Call it
        </Button>
      </div>
      {error && <Failed error={error} />}
      {done && (
        <div className="mt-4">
          <p className="flex flex-wrap items-center gap-3">
            <StatusBadge status={done.invocation.status} />
            <Link
              to="/"
              search={{ tab: done.invocation.status === 'pending' ? undefined : 'decided', call: done.invocation.id }}
              className="text-primary underline"
            >
              {done.invocation.id}
            </Link>
          </p>
          {done.result != null && <Result done={done} />}
        </div>
      )}
    </div>
  )
}

/** What a dry run reports is shown as on the card of a call. */
function Result({ done }: { done: Schemas['InvokeResponse'] }) {
  const { result, invocation } = done
  const isReport = invocation.dry_run && typeof result === 'object' && result !== null && !Array.isArray(result)
  return isReport ? <Changes report={result as Record<string, unknown>} /> : <Pre text={json(result)} />
}
