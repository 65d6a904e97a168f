// One space: its band, who must approve, what is redacted and kept, who is in it, and whether it only observes.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import type { ApiError } from '@/api/client'
import type { Schemas, Tier } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Failed, Foreign, fieldClass, Loading, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { usersQuery } from '@/lib/users'
import { quoted } from './model'
import { BAND_NAMES, BandBadge, bandMeans, MayNot, Select, submitted, useField } from './parts'
import { addMember, changed, changeSpace, openSpace, removeMember, spaceQuery } from './queries'

const route = getRouteApi('/policies/spaces/$space')
const TIERS: readonly Tier[] = ['R0', 'R1', 'R2', 'R3', 'R4']
const KINDS: readonly Schemas['RedactionKind'][] = ['email', 'phone', 'secret', 'face']

/** What asks before it is done. */
type Question = { title: string; verb: string; text: ReactNode; command: string; look?: 'danger'; act: () => Promise<unknown> }

export function Space() {
  const { space: id } = route.useParams()
  const found = useQuery(spaceQuery(id))
  if (found.error) return <Failed error={found.error as ApiError} retry={() => void found.refetch()} />
  return found.data ? <Detail space={found.data} /> : <Loading />
}

function Detail({ space: found }: { space: Schemas['SpaceView'] }) {
  // Its name stands in sentences of ours.
  const space = { ...found, name: line(found.name) }
  const client = useQueryClient()
  const { say } = useToasts()
  const mayChange = useMay().includes('manage_policy')
  const { error, busy, run } = useSending<string>()
  const [question, setQuestion] = useState<Question>()
  const name = quoted(found.name)
  const done = async (text: string) => {
    say(text)
    await changed(client)
  }
  const change = (what: string, request: Schemas['ChangeSpaceRequest']) =>
    void run(what, async () => {
      await changeSpace(space.id, request)
      await done(`${space.name}: ${what} is changed.`)
    })
  return (
    <div className="py-4">
      <Link to="/policies/spaces" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Spaces
      </Link>
      <header className="mt-2">
        <div className="flex flex-wrap items-center gap-3">
          <BandBadge band={space.band} />
          <Copy text={space.id} />
          <span className="text-xs text-muted-fg">
            created <When at={space.created_at} />
          </span>
        </div>
        <h2 className="mt-1 text-base font-semibold">
          <Foreign text={space.name} />
        </h2>
        <Copy text={`countersign space show ${name}`} />
      </header>
      {error && <Failed error={error} />}
      {!mayChange && <MayNot what="manage_policy" />}

      <Section title="Band: how strict it is" aside={<Copy text={`countersign space band ${name} amber`} />}>
        <fieldset disabled={!mayChange} className="grid gap-2 sm:grid-cols-2 lg:grid-cols-4">
          <legend className="sr-only">Band</legend>
          {BAND_NAMES.map(band => (
            <label
              key={band}
              className={cx(
                'flex cursor-pointer items-start gap-2 rounded-md border bg-panel p-3',
                band === space.band && 'border-primary bg-accent',
              )}
            >
              <input
                type="radio"
                name="band"
                className="mt-1 accent-primary"
                checked={band === space.band}
                onChange={() =>
                  setQuestion({
                    title: `Make ${space.name} ${band}`,
                    verb: `Make it ${band}`,
                    text: `In a space that is ${band}: ${bandMeans(band)}. Approvals of its pending calls become void: they are asked about again.`,
                    command: `countersign space band ${name} ${band}`,
                    act: () => changeSpace(space.id, { band }),
                  })
                }
              />
              <span>
                <BandBadge band={band} />
                <span className="block text-xs text-muted-fg">{bandMeans(band)}</span>
              </span>
            </label>
          ))}
        </fieldset>
      </Section>

      <Section title="Observe" aside={<Copy text={`countersign observe ${space.observes ? 'off' : 'on'} ${name}`} />}>
        <p>
          {space.observes ? (
            <b className="text-warn">
              ! It only observes: what needs approval runs, and is noted. R4 is asked about, and what is denied stays denied.
            </b>
          ) : (
            'It asks: what needs approval waits for a person.'
          )}
        </p>
        <div className="mt-2 flex flex-wrap items-center gap-3">
          {mayChange && (
            <Button
              look={space.observes ? 'primary' : 'danger'}
              onClick={() =>
                setQuestion(
                  space.observes
                    ? {
                        title: `Let ${space.name} ask again`,
                        verb: 'Ask again',
                        text: 'From now on calls that need approval wait for a person.',
                        command: `countersign observe off ${name}`,
                        act: () => changeSpace(space.id, { observes: false }),
                      }
                    : {
                        title: `Let ${space.name} only observe`,
                        verb: 'Only observe',
                        look: 'danger',
                        text: 'Calls that need approval will run at once, without asking anybody, but for R4. Do this only where you would let the agents run without Countersign.',
                        command: `countersign observe on ${name}`,
                        act: () => changeSpace(space.id, { observes: true }),
                      },
                )
              }
            >
              {space.observes ? 'Let it ask again…' : 'Let it only observe…'}
            </Button>
          )}
          <Link to="/policies/observe" search={{ space: space.id }} className="text-primary underline">
            The report
          </Link>
        </div>
      </Section>

      <Section
        title="Consent to class HIGH"
        aside={<Copy text={`countersign space consent ${name} ${space.asks_consent ? 'waived' : 'asked'}`} />}
      >
        <p>
          {space.asks_consent
            ? 'Calls of class HIGH that do more than read need the consent of the person behind them, or an approval.'
            : 'Calls of class HIGH need no consent.'}
        </p>
        {mayChange && (
          <Button
            className="mt-2"
            look={space.asks_consent ? 'danger' : 'primary'}
            onClick={() =>
              setQuestion(
                space.asks_consent
                  ? {
                      title: `Ask for no consent in ${space.name}`,
                      verb: 'Waive it',
                      look: 'danger',
                      text: 'Calls that reach the network, another space, a camera or a microphone run as their modes say, whether or not the person behind them has consented.',
                      command: `countersign space consent ${name} waived`,
                      act: () => changeSpace(space.id, { asks_consent: false }),
                    }
                  : {
                      title: `Ask for consent in ${space.name}`,
                      verb: 'Ask for it',
                      text: 'Calls of class HIGH that do more than read wait for a person until the person behind them has consented.',
                      command: `countersign space consent ${name} asked`,
                      act: () => changeSpace(space.id, { asks_consent: true }),
                    },
              )
            }
          >
            {space.asks_consent ? 'Waive it…' : 'Ask for it…'}
          </Button>
        )}
      </Section>

      <Members space={space} mayChange={mayChange} ask={setQuestion} done={done} />

      <Section title="Who approves" aside={<Copy text={`countersign space set ${name} --self-approval refused`} />}>
        <div className="flex flex-wrap items-center gap-2">
          Whoever asked, or owns the agent that asked,
          <Select
            label="Self-approval"
            value={space.self_approval}
            disabled={!mayChange || !!busy}
            onChange={value => change('self-approval', { self_approval: value as Schemas['SelfApproval'] })}
            options={[
              ['allowed', 'may approve'],
              ['refused', 'may not approve'],
            ]}
            className="max-w-44"
          />
        </div>
        <Quorum space={space} mayChange={mayChange} onSet={quorum => change('quorum', { quorum })} />
      </Section>

      <Section title="What a source does not see" aside={<Copy text={`countersign space redact --help`} />}>
        <Redaction space={space} mayChange={mayChange} onSet={redaction => change('redaction', { redaction })} />
      </Section>

      <Section title="What stays of calls that have ended" aside={<Copy text={`countersign space keep ${name} digests`} />}>
        <Select
          label="What stays"
          value={space.keeps ?? 'texts'}
          disabled={!mayChange || !!busy}
          onChange={value => change('what it keeps', { keeps: value as Schemas['Keeps'] })}
          options={[
            ['texts', 'their texts, redacted and truncated'],
            ['digests', 'only digests of them'],
          ]}
          className="sm:w-80"
        />
      </Section>
      {question && (
        <FormDialog
          title={question.title}
          verb={question.verb}
          look={question.look}
          onClose={() => setQuestion(undefined)}
          send={async () => {
            await question.act()
            setQuestion(undefined)
            await done(`${question.title}: done.`)
          }}
        >
          <p>{question.text}</p>
          <Copy text={question.command} className="max-w-full" />
        </FormDialog>
      )}
    </div>
  )
}

type MembersProps = {
  space: Schemas['SpaceView']
  mayChange: boolean
  ask: (question: Question) => void
  done: (text: string) => Promise<void>
}

function Members({ space, mayChange, ask, done }: MembersProps) {
  const users = useQuery(usersQuery)
  const { error, busy, run } = useSending()
  const [user, setUser] = useState('')
  const nameOf = (id: string) => line(users.data?.find(each => each.id === id)?.name ?? id)
  const others = (users.data ?? []).filter(each => !each.disabled_at && !space.members?.includes(each.id))
  const name = quoted(space.name)
  const add = async () => {
    await addMember(space.id, user)
    setUser('')
    await done(`${nameOf(user)} is a member of ${space.name}.`)
  }
  return (
    <Section title="Members" aside={<Copy text={`countersign space member list ${name}`} />}>
      {!space.members && <p>Open: everybody in the org may act in it and see it. The first member closes it to everybody else.</p>}
      {space.members?.length === 0 && <p className="font-medium text-warn">! It is closed, and nobody is in it.</p>}
      <ul className="divide-y rounded-md border bg-panel empty:hidden">
        {space.members?.map(id => (
          <li key={id} className="flex items-center gap-3 px-3 py-2">
            <span className="foreign min-w-0 flex-1 truncate">{nameOf(id)}</span>
            <Copy text={id} className="max-sm:hidden" />
            {mayChange && (
              <Button
                look="danger"
                aria-label={`Remove ${nameOf(id)}`}
                onClick={() =>
                  ask({
                    title: `Remove ${nameOf(id)} from ${space.name}`,
                    verb: 'Remove',
                    look: 'danger',
                    text: 'It ends at once. What they have pending in the space does not run. The space stays closed, also when the last member has left.',
                    command: `countersign space member remove ${name} ${quoted(nameOf(id))}`,
                    act: () => removeMember(space.id, id),
                  })
                }
              >
                Remove
              </Button>
            )}
          </li>
        ))}
      </ul>
      {mayChange && (
        <form className="mt-2 flex flex-wrap gap-2" onSubmit={submitted(() => void run('it', add))}>
          <Select
            label="A person"
            value={user}
            onChange={setUser}
            options={[['', 'a person'], ...others.map(each => [each.id, `${line(each.name)} (${each.role})`] as const)]}
            className="sm:w-64"
          />
          <Button type="submit" busy={!!busy} disabled={!user}>
            Add
          </Button>
          {space.members && (
            <Button
              look="quiet"
              onClick={() =>
                ask({
                  title: `Open ${space.name} to everybody`,
                  verb: 'Open it',
                  text: 'It has no members any more: everybody in the org may act in it and see what is in it.',
                  command: `countersign space member clear ${name}`,
                  act: () => openSpace(space.id),
                })
              }
            >
              Open it to everybody…
            </Button>
          )}
        </form>
      )}
      {error && <Failed error={error} />}
    </Section>
  )
}

function Quorum({
  space,
  mayChange,
  onSet,
}: {
  space: Schemas['SpaceView']
  mayChange: boolean
  onSet: (quorum: Record<string, number>) => void
}) {
  const before = TIERS.map(tier => space.quorum[tier] ?? 1).join(',')
  const [text, setText] = useField(before)
  const counts = text.split(',')
  const quorum = Object.fromEntries(TIERS.flatMap((tier, at) => (Number(counts[at]) > 1 ? [[tier, Number(counts[at])]] : [])))
  const isBad = counts.some(count => !/^[1-9]\d*$/.test(count))
  return (
    <form className="mt-3 flex flex-wrap items-end gap-2" onSubmit={submitted(() => onSet(quorum))}>
      {TIERS.map((tier, at) => (
        <label key={tier} className="flex flex-col text-xs text-muted-fg">
          {tier}
          <input
            aria-label={`People who must approve ${tier}`}
            inputMode="numeric"
            disabled={!mayChange}
            value={counts[at] ?? ''}
            onChange={event => setText(counts.map((count, each) => (each === at ? event.target.value.replace(',', '') : count)).join(','))}
            className={cx(fieldClass, 'mt-1 max-w-14 tabular-nums')}
          />
        </label>
      ))}
      <span className="py-2 text-muted-fg">different people must approve, by tier</span>
      {text !== before && (
        <Button type="submit" disabled={isBad}>
          Set
        </Button>
      )}
    </form>
  )
}

function Redaction({
  space,
  mayChange,
  onSet,
}: {
  space: Schemas['SpaceView']
  mayChange: boolean
  onSet: (rule: Schemas['RedactionRule']) => void
}) {
  const rule = space.redaction
  const [regions, setRegions] = useField(rule.regions.join(', '))
  const kinds = rule.kinds ?? space.redacts ?? []
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        <Select
          label="Redaction"
          value={rule.kinds ? 'own' : 'band'}
          disabled={!mayChange}
          onChange={value => onSet({ ...rule, kinds: value === 'own' ? [...kinds] : null })}
          options={[
            ['band', `as its band says: ${space.redacts?.join(', ') || 'nothing'}`],
            ['own', 'these'],
          ]}
          className="sm:w-80"
        />
        {rule.kinds &&
          KINDS.map(kind => (
            <label key={kind} className="flex min-h-9 items-center gap-1.5">
              <input
                type="checkbox"
                className="size-4 accent-primary"
                disabled={!mayChange}
                checked={kinds.includes(kind)}
                onChange={event =>
                  onSet({ ...rule, kinds: KINDS.filter(each => (each === kind ? event.target.checked : kinds.includes(each))) })
                }
              />
              {kind}
            </label>
          ))}
      </div>
      {kinds.includes('phone') && (
        <form
          className="mt-2 flex flex-wrap items-center gap-2"
          onSubmit={submitted(() => onSet({ ...rule, regions: regions.split(/[\s,]+/).filter(Boolean) }))}
        >
          National telephone numbers of
          <input
            aria-label="Regions of telephone numbers"
            value={regions}
            disabled={!mayChange}
            onChange={event => setRegions(event.target.value)}
            placeholder="DE, FR"
            className={cx(fieldClass, 'max-w-40')}
          />
          {regions !== rule.regions.join(', ') && <Button type="submit">Set</Button>}
        </form>
      )}
    </>
  )
}
