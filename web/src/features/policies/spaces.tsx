// Spaces: how strict each is, and who may act in it. And which actions may reach from one into another.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Failed, Foreign, fieldClass, Loading, Section, When } from '@/components/ui'
import { actionsQuery } from '@/lib/actions'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { spacesQuery } from '@/lib/spaces'
import { BandBadge, bandMeans, Labelled, Select, submitted, TabHead, Who } from './parts'
import { changed, createSpace, crossingsQuery, setCrossing } from './queries'

export function Spaces() {
  const spaces = useQuery(spacesQuery)
  const mayChange = useMay().includes('manage_policy')
  const [isCreating, setCreating] = useState(false)
  return (
    <>
      <TabHead
        name="Spaces"
        verbs={
          <>
            <Copy text="countersign space list" />
            {mayChange && (
              <Button look="primary" onClick={() => setCreating(true)}>
                Create a space…
              </Button>
            )}
          </>
        }
      >
        A space holds sessions. Its band says how strict it is, whatever the modes say; its members are who may act in it and see it.
      </TabHead>
      <Asked query={spaces} />
      {spaces.isPending && <Loading />}
      <ul aria-label="Spaces" className="divide-y overflow-hidden rounded-md border bg-panel empty:hidden">
        {spaces.data?.map(space => (
          <li key={space.id}>
            <Link
              to="/policies/spaces/$space"
              params={{ space: space.id }}
              className="grid items-center gap-x-4 gap-y-1 px-3 py-2.5 hover:bg-muted lg:grid-cols-[minmax(0,1fr)_20rem_12rem]"
            >
              <span className="min-w-0">
                <Foreign text={space.name} className="block truncate font-medium" />
                <span className="block truncate font-mono text-xs text-muted-fg">{space.id}</span>
              </span>
              <span className="text-xs">
                <BandBadge band={space.band} /> <span className="text-muted-fg">{bandMeans(space.band)}</span>
                {space.observes && <span className="block font-medium text-warn">! observes: it asks nobody, but about R4</span>}
              </span>
              <span className="text-xs text-muted-fg">
                {space.members ? counted(space.members.length, 'member') : 'open to everybody in the org'}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {spaces.data && <Crossings spaces={spaces.data} mayChange={mayChange} />}
      {isCreating && <CreateDialog onClose={() => setCreating(false)} />}
    </>
  )
}

function CreateDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [name, setName] = useState('')
  return (
    <FormDialog
      title="Create a space"
      verb="Create"
      onClose={onClose}
      disabled={!name.trim()}
      send={async () => {
        const made = await createSpace(name.trim())
        onClose()
        await navigate({ to: '/policies/spaces/$space', params: { space: made.id } })
        await changed(client)
      }}
    >
      <Labelled label="Name" help="It begins green, and open to everybody in the org.">
        <input value={name} onChange={event => setName(event.target.value)} placeholder="production" className={fieldClass} />
      </Labelled>
    </FormDialog>
  )
}

function Crossings({ spaces, mayChange }: { spaces: readonly Schemas['SpaceView'][]; mayChange: boolean }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const crossings = useQuery(crossingsQuery)
  const actions = useQuery(actionsQuery)
  const [crossing, setOne] = useState<Schemas['CrossingRequest']>({ action: '', from_space_id: '', to_space_id: '' })
  const { error, busy, run } = useSending<'allow' | 'forbid'>()
  const nameOf = (id: string) => line(spaces.find(space => space.id === id)?.name ?? id)
  const options = [['', 'space'] as const, ...spaces.map(space => [space.id, line(space.name)] as const)]
  const set = (one: Schemas['CrossingRequest'], isAllowed: boolean) =>
    void run(isAllowed ? 'allow' : 'forbid', async () => {
      await setCrossing(one, isAllowed)
      say(`${one.action} ${isAllowed ? 'may' : 'may no longer'} act from ${nameOf(one.from_space_id)} in ${nameOf(one.to_space_id)}.`)
      if (isAllowed) setOne({ action: '', from_space_id: '', to_space_id: '' })
      await changed(client)
    })
  return (
    <Section title="Crossings" aside={<Copy text="countersign space crossings" />}>
      <p className="mb-2 text-muted-fg">An action of one space acts in another only where it is listed here.</p>
      <Asked query={crossings} />
      <ul className="divide-y rounded-md border bg-panel empty:hidden">
        {crossings.data?.items.map(each => (
          <li key={`${each.action}${each.from_space_id}${each.to_space_id}`} className="flex flex-wrap items-center gap-x-3 px-3 py-2">
            <code className="text-[13px]">{each.action}</code> from {nameOf(each.from_space_id)} in {nameOf(each.to_space_id)}
            <span className="text-xs text-muted-fg">
              by <Who id={each.listed_by} /> <When at={each.listed_at} />
            </span>
            {mayChange && (
              <Button look="danger" className="ml-auto" busy={busy === 'forbid'} onClick={() => set(each, false)}>
                Forbid
              </Button>
            )}
          </li>
        ))}
      </ul>
      {crossings.data?.items.length === 0 && <p className="text-muted-fg">None.</p>}
      {mayChange && spaces.length > 1 && (
        <form className="mt-3 flex flex-wrap items-center gap-2" onSubmit={submitted(() => set(crossing, true))}>
          <input
            aria-label="Action"
            list="crossing-actions"
            value={crossing.action}
            onChange={event => setOne({ ...crossing, action: event.target.value })}
            placeholder="an action"
            className={cx(fieldClass, 'font-mono text-[13px] sm:w-64')}
          />
          <datalist id="crossing-actions">
            {actions.data?.sources.flatMap(source => source.actions.map(each => <option key={each.id} value={each.id} />))}
          </datalist>
          from
          <Select
            label="From the space"
            value={crossing.from_space_id}
            onChange={from => setOne({ ...crossing, from_space_id: from })}
            options={options}
            className="sm:w-40"
          />
          in
          <Select
            label="In the space"
            value={crossing.to_space_id}
            onChange={to => setOne({ ...crossing, to_space_id: to })}
            options={options}
            className="sm:w-40"
          />
          <Button type="submit" busy={busy === 'allow'} disabled={!crossing.action || !crossing.from_space_id || !crossing.to_space_id}>
            Allow
          </Button>
        </form>
      )}
      {error && <Failed error={error} />}
    </Section>
  )
}
