// The definition that a run runs, and how the saved one differs from it.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Json, Run } from '@/api/types'
import { Diff, Pre } from '@/components/changes'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Button, Section } from '@/components/ui'
import { automationQuery } from '@/lib/automations'
import { json } from '@/lib/clean'
import { lineDiff } from '@/lib/diff'

export function DefinitionOfRun({ run, definition }: { run: Run; definition: Json | undefined }) {
  const current = useQuery({ ...automationQuery(run.automation_id), retry: false })
  const [open, setOpen] = useState(false)
  const saved = current.data
  const isSame = saved?.digest === run.digest
  return (
    <Section title="Definition of this run">
      <p>
        Version {run.version}
        {saved && (isSame ? ', which is the one that is saved now.' : `; version ${saved.version} is saved now.`)}
      </p>
      <Button className="mt-2" disabled={!definition} onClick={() => setOpen(true)}>
        {saved && !isSame ? 'Compare with the saved one' : 'Show it'}
      </Button>
      {open && definition && (
        <Dialog
          title={saved && !isSame ? `Version ${run.version} and version ${saved.version}` : `Version ${run.version}`}
          wide
          onClose={() => setOpen(false)}
        >
          <div className="mt-3 rounded-md border">
            {saved && !isSame ? (
              <Diff text={lineDiff(JSON.stringify(definition, null, 2), JSON.stringify(saved.definition ?? {}, null, 2))} />
            ) : (
              <Pre text={json(definition)} />
            )}
          </div>
          <DialogFoot>
            <Button onClick={() => setOpen(false)}>Close</Button>
          </DialogFoot>
        </Dialog>
      )}
    </Section>
  )
}
