// A definition from elsewhere. It becomes a draft, which a person reads before it does anything.
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Mistake } from '@/api/types'
import { Field } from '@/components/field'
import { FormDialog } from '@/components/form-dialog'
import { fieldClass } from '@/components/ui'
import { parsed } from './model'
import { Mistakes, SpaceField } from './parts'
import { changed, importDefinition } from './queries'

export function Import({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const [space, setSpace] = useState('')
  const [mistakes, setMistakes] = useState<readonly Mistake[]>([])
  const navigate = useNavigate()
  const client = useQueryClient()
  const definition = parsed(text)
  const wrong = typeof definition === 'string' && text.trim() ? definition : undefined
  const send = async () => {
    if (typeof definition === 'string') return
    setMistakes([])
    try {
      const draft = await importDefinition(definition, space || undefined)
      changed(client)
      void navigate({ to: '/automations/drafts/$draft', params: { draft: draft.id } })
    } catch (cause) {
      if (cause instanceof ApiError) setMistakes(cause.problem.mistakes ?? [])
      throw cause
    }
  }
  return (
    <FormDialog title="Import a definition" verb="Read it" wide disabled={typeof definition === 'string'} send={send} onClose={onClose}>
      <p className="text-muted-fg">Nothing runs yet: it is a draft, and you see what is worth checking before you save it.</p>
      <label className="block">
        <span className="mb-1 block font-medium">A file</span>
        <input
          type="file"
          accept="application/json,.json"
          onChange={event => void event.target.files?.[0]?.text().then(setText)}
          className="max-w-full"
        />
      </label>
      <Field label="Or its text" told={wrong ? { isGood: false, text: wrong } : undefined}>
        {props => (
          <textarea
            {...props}
            rows={10}
            spellCheck={false}
            value={text}
            onChange={event => setText(event.target.value)}
            className={`${fieldClass} font-mono text-xs`}
          />
        )}
      </Field>
      <SpaceField value={space} onChange={setSpace} />
      <Mistakes title="What is wrong with it" mistakes={mistakes} />
    </FormDialog>
  )
}
