// A draft: what somebody proposed, or what was imported. A person reads it, and saves it, changes it first, or drops it.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Json, Schemas } from '@/api/types'
import { Pre } from '@/components/changes'
import { Button, Copy, Failed, Foreign, Loading, Section, When } from '@/components/ui'
import { automationQuery } from '@/lib/automations'
import { json, line } from '@/lib/clean'
import { unkept, unkeptInWords } from '@/lib/digits'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { placesOf } from './model'
import { Mistakes } from './parts'
import { changed, draftQuery, dropDraft, saveDraft } from './queries'
import { Changed, Saved, SigningSecrets, Ticks, WhatItDoes } from './review'
import { keep } from './working'

const route = getRouteApi('/automations/drafts/$draft')

export function OneDraft() {
  const { draft: id } = route.useParams()
  const read = useQuery(draftQuery(id))
  const draft = read.data
  const nameOf = useNames()
  if (read.error) return <Failed error={read.error as ApiError} retry={() => void read.refetch()} />
  if (!draft) return <Loading />
  const definition = (draft.definition ?? {}) as Json
  return (
    <div className="h-full overflow-auto px-4 py-4 md:px-6">
      <Link to="/automations" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Automations
      </Link>
      <h1 className="mt-1 text-lg font-semibold">
        Draft: <Foreign text={draft.name || 'without a name'} />
      </h1>
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted-fg">
        <Copy text={draft.id} />
        by {line(nameOf(draft.made_by))} · <When at={draft.created_at} /> · it is gone <When at={draft.expires_at} />
        <Copy text={`countersign automation draft show ${draft.id}`} />
      </p>
      <p className="mt-2">
        {draft.automation_id ? (
          <>
            It would be a new version of{' '}
            <Link to="/automations/$automation" params={{ automation: draft.automation_id }} className="text-primary underline">
              this automation
            </Link>
            .
          </>
        ) : (
          'It would be a new automation.'
        )}{' '}
        Nothing runs until a person saves it.
      </p>
      <Verbs draft={draft} definition={definition} />
      <Section title="What it would do">
        <div className="max-w-3xl space-y-4">
          <WhatItDoes definition={definition} space={draft.space_id} automation={draft.automation_id ?? undefined} isFlagged />
          {draft.automation_id && <Changed automation={draft.automation_id} definition={definition} />}
        </div>
      </Section>
      <Section title="The definition">
        <Pre text={json(definition)} />
      </Section>
    </div>
  )
}

function Verbs({ draft, definition }: { draft: Schemas['DraftView']; definition: Json }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  const mayWrite = useMay().includes('invoke')
  const { error, busy, run } = useSending<'save' | 'drop'>()
  const [accepted, setAccepted] = useState<string[]>([])
  const [secrets, setSecrets] = useState<Record<string, string>>({})
  const [done, setDone] = useState<Schemas['SavedAutomationResponse']>()
  const automation = useQuery({ ...automationQuery(draft.automation_id ?? ''), enabled: !!draft.automation_id, retry: false })
  if (!mayWrite) return null
  const flags = draft.flags ?? []
  const places = placesOf(flags)
  const lost = unkept(definition)
  const change = () => {
    const of = draft.automation_id ?? 'new'
    const { id, flags } = draft
    keep(of, { definition, space: draft.space_id, draft: { id, flags, definition } })
    void (draft.automation_id
      ? navigate({ to: '/automations/$automation/edit', params: { automation: draft.automation_id } })
      : navigate({ to: '/automations/new' }))
  }
  return (
    <Section title="Save it, or not">
      <div className="max-w-3xl space-y-3">
        <Mistakes title="Worth checking before it is saved" mistakes={flags} tone="warn" />
        <SigningSecrets definition={definition} saved={automation.data} secrets={secrets} onChange={setSecrets} />
        <Ticks places={places} accepted={accepted} onChange={setAccepted} />
        <div className="flex flex-wrap gap-2">
          <Button
            look="primary"
            busy={busy === 'save'}
            disabled={places.some(place => !accepted.includes(place))}
            onClick={() =>
              void run('save', async () => {
                setDone(await saveDraft(draft.id, accepted, secrets))
                changed(client)
              })
            }
          >
            Save it
          </Button>
          <Button disabled={lost !== undefined} onClick={change}>
            Change it first
          </Button>
          <Button
            look="danger"
            busy={busy === 'drop'}
            onClick={() =>
              void run('drop', async () => {
                await dropDraft(draft.id)
                changed(client)
                void navigate({ to: '/automations' })
              })
            }
          >
            Drop it
          </Button>
        </div>
        {lost !== undefined && (
          <p className="text-warn">
            {unkeptInWords(lost)} Saving keeps them all; to change it, save a file with{' '}
            <Copy text="countersign automation apply -f definition.json" />.
          </p>
        )}
        {error && <Failed error={error} />}
        {done && <Saved done={done} />}
      </div>
    </Section>
  )
}
