// Several runs at once: cancelled or run again, one by one, each with what became of it. Then the list has those that this touched.
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Run } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { useToasts } from '@/components/toasts'
import { Button, Foreign } from '@/components/ui'
import { reasonInWords } from '@/features/automations/firings'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { isFinal } from './model'
import { cancelRun, rerun } from './queries'

type Verb = 'cancel' | 'rerun'
type Props = { chosen: readonly Run[]; onClear: () => void; onTouched: (runs: readonly string[]) => void }

const WORDS: Record<Verb, { title: (runs: string) => string; verb: string; about: string; done: string }> = {
  cancel: {
    title: runs => `Cancel ${runs}?`,
    verb: 'Cancel them',
    about: 'What waits for a person is withdrawn. A step in progress still ends as it ends, and has its receipt.',
    done: 'cancelled',
  },
  rerun: {
    title: runs => `Run ${runs} again?`,
    verb: 'Run them',
    about: 'Each begins anew with its inputs and the version that is saved now. Steps that need a person wait for one, as always.',
    done: 'started',
  },
}

export function BulkBar({ chosen, onClear, onTouched }: Props) {
  const client = useQueryClient()
  const { say } = useToasts()
  const [verb, setVerb] = useState<Verb>()
  const fit = { cancel: chosen.filter(run => !isFinal(run)), rerun: chosen.filter(isFinal) }
  const send = async (which: Verb) => {
    const touched: string[] = []
    const not: string[] = []
    for (const run of fit[which]) {
      const answer = await once(which, run.id)
      if ('touched' in answer) touched.push(answer.touched)
      else not.push(answer.why)
    }
    setVerb(undefined)
    onClear()
    await client.invalidateQueries({ queryKey: ['runs'] })
    const refused = not.length > 0 ? ` ${not.length} not: ${[...new Set(not)].join(' ')}` : ''
    say(`${counted(touched.length, 'run')} ${WORDS[which].done}.${refused}`)
    if (touched.length > 0) onTouched(touched)
  }
  return (
    <div className="flex flex-wrap items-center gap-2 border-b bg-accent px-4 py-2 md:px-6">
      <span aria-live="polite">{counted(chosen.length, 'run')} chosen</span>
      <span className="flex-1" />
      {fit.cancel.length > 0 && <Button onClick={() => setVerb('cancel')}>Cancel {fit.cancel.length}…</Button>}
      {fit.rerun.length > 0 && <Button onClick={() => setVerb('rerun')}>Run {fit.rerun.length} again…</Button>}
      <Button look="quiet" onClick={onClear}>
        Choose none
      </Button>
      {verb && (
        <FormDialog
          title={WORDS[verb].title(counted(fit[verb].length, 'run'))}
          verb={WORDS[verb].verb}
          look={verb === 'cancel' ? 'danger' : 'primary'}
          onClose={() => setVerb(undefined)}
          send={() => send(verb)}
        >
          <p>{WORDS[verb].about}</p>
          <ul className="max-h-60 list-disc overflow-auto pl-5">
            {fit[verb].map(run => (
              <li key={run.id}>
                <Foreign text={run.automation_name ?? run.automation_id} /> <code className="text-xs">{run.id}</code>
              </li>
            ))}
          </ul>
        </FormDialog>
      )}
    </div>
  )
}

/** The run that this touched, or why it did nothing. A refusal of one says nothing of the others. */
async function once(verb: Verb, run: string): Promise<{ touched: string } | { why: string }> {
  try {
    if (verb === 'cancel') {
      await cancelRun(run)
      return { touched: run }
    }
    const fired = await rerun(run)
    return fired.outcome === 'started' && fired.run_id ? { touched: fired.run_id } : { why: reasonInWords(fired.reason) }
  } catch (cause) {
    if (cause instanceof ApiError) return { why: `${line(cause.message)}.` }
    throw cause
  }
}
