// Small parts that the pages of the rules share.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, type ReactNode, useState } from 'react'
import type { Schemas } from '@/api/types'
import { cx, Foreign, fieldClass, Time } from '@/components/ui'
import { automationsQuery } from '@/lib/automations'
import { line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { countdown, counted } from '@/lib/format'
import { spacesQuery } from '@/lib/spaces'
import { usersQuery } from '@/lib/users'
import { type Budget, scopeOf } from './model'
import { useSessions } from './use-sessions'

export const submitted = (act: () => void) => (event: FormEvent) => {
  event.preventDefault()
  act()
}

/** The head of a tab: what it is for in one sentence, and its verbs. */
export function TabHead({ name, children, verbs }: { name: string; children: ReactNode; verbs?: ReactNode }) {
  return (
    <div className="flex flex-wrap items-start justify-between gap-3 py-4">
      <h2 className="sr-only">{name}</h2>
      <p className="max-w-2xl text-muted-fg">{children}</p>
      {verbs && <div className="flex min-w-0 flex-wrap items-center gap-2">{verbs}</div>}
    </div>
  )
}

export function Labelled({ label, children, help }: { label: string; children: ReactNode; help?: string }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label className="block">
      <span className="mb-1 block text-sm font-medium">{label}</span>
      {children}
      {help && <span className="mt-1 block text-xs text-muted-fg">{help}</span>}
    </label>
  )
}

type SelectProps = {
  label: string
  value: string
  onChange: (value: string) => void
  options: readonly (readonly [value: string, word: string])[]
  disabled?: boolean
  className?: string
}

export function Select({ label, value, onChange, options, disabled, className }: SelectProps) {
  return (
    <select
      aria-label={label}
      value={value}
      disabled={disabled}
      onChange={event => onChange(event.target.value)}
      className={cx(fieldClass, className)}
    >
      {!options.some(([each]) => each === value) && <option value={value}>{value || 'choose'}</option>}
      {options.map(([each, word]) => (
        <option key={each} value={each}>
          {word}
        </option>
      ))}
    </select>
  )
}

/** A choice among the spaces, or none. */
export function SpaceSelect({ value, onChange }: Pick<SelectProps, 'value' | 'onChange'>) {
  const spaces = useQuery(spacesQuery)
  return (
    <Labelled label="In the space">
      <Select
        label="In the space"
        value={value}
        onChange={onChange}
        options={[['', 'any space'], ...(spaces.data ?? []).map(each => [each.id, line(each.name)] as const)]}
      />
    </Labelled>
  )
}

/** How much of a budget is used: the bar for the eye, the words for everybody. */
export function BudgetBar({ budget }: { budget: Budget }) {
  const isFull = budget.used >= budget.most
  return (
    <div className="min-w-0">
      <progress
        aria-label={budget.name}
        max={budget.most || 1}
        value={budget.most ? budget.used : 1}
        className={cx('budget h-1.5 w-full', isFull ? 'text-warn' : 'text-primary')}
      />
      <p className="foreign text-xs tabular-nums text-muted-fg">{budget.text}</p>
    </div>
  )
}

const STATES: Record<Schemas['GrantStateName'], { word: string; tone: string }> = {
  requested: { word: '◷ requested', tone: 'text-warn' },
  active: { word: '✓ active', tone: 'text-ok' },
  refused: { word: '⊘ denied', tone: 'text-danger' },
  revoked: { word: '– revoked', tone: 'text-muted-fg' },
  expired: { word: '◌ expired', tone: 'text-muted-fg' },
  used_up: { word: '– used up', tone: 'text-muted-fg' },
}
export function GrantStateWord({ state }: { state: Schemas['GrantStateName'] }) {
  return <span className={cx('text-xs font-medium whitespace-nowrap', STATES[state].tone)}>{STATES[state].word}</span>
}

/** What is left until a time, or that it is over. */
export function Until({ at }: { at: string }) {
  const now = useNow()
  return (
    <Time at={at} className="tabular-nums">
      {Date.parse(at) > now ? `${countdown(at, now)} left` : 'over'}
    </Time>
  )
}

/** Whose calls: the session by its title, the automation, the org. */
export function Whose({ scope, title }: { scope: string; title?: string | null }) {
  const { kind, id } = scopeOf(scope)
  if (kind === 'session') {
    return (
      <Link to="/policies/sessions/$session" params={{ session: id }} className="underline">
        <Foreign text={title || id} />
      </Link>
    )
  }
  return <span>{kind === 'org' ? 'everybody in the org' : <Foreign text={scope} />}</span>
}

/** Who it was, by name where one is known; the id is behind it. */
export function Who({ id }: { id: string }) {
  const users = useQuery(usersQuery)
  const { sessions } = useSessions()
  const { kind, id: own } = scopeOf(id)
  const automations = useQuery({ ...automationsQuery, enabled: kind === 'automation' })
  const name =
    kind === 'user'
      ? users.data?.find(user => user.id === own)?.name
      : kind === 'agent'
        ? sessions.find(each => each.id === own)?.title
        : automations.data?.find(each => each.id === own)?.name
  return name ? (
    <span title={id}>
      <Foreign text={name} />
      {kind !== 'user' && ` (${kind})`}
    </span>
  ) : (
    <span className="foreign">{line(id)}</span>
  )
}

const BANDS: Record<Schemas['Band'], { means: string; tone: string }> = {
  green: { means: 'the modes decide', tone: 'border-ok text-ok' },
  amber: { means: 'writes need approval', tone: 'border-warn text-warn' },
  red: { means: 'all but R0 needs approval, R4 is denied', tone: 'border-danger text-danger' },
  black: { means: 'R0 needs approval, the rest is denied', tone: 'border-fg bg-fg text-bg' },
}
export const BAND_NAMES = Object.keys(BANDS) as Schemas['Band'][]
export const bandMeans = (band: Schemas['Band']): string => BANDS[band].means

export function BandBadge({ band }: { band: Schemas['Band'] }) {
  return (
    <span className={cx('rounded border px-1.5 text-xs font-medium', BANDS[band].tone)} title={BANDS[band].means}>
      {band}
    </span>
  )
}

export function MayNot({ what }: { what: string }) {
  return <p className="text-xs text-muted-fg">Somebody with the permission {what} changes this.</p>
}

/** How many pending calls a change ended, where the server says so. */
export const voidedText = (voided: number | null | undefined): string =>
  voided ? ` ${counted(voided, 'pending call')} ended: ${voided === 1 ? 'its' : 'their'} rules changed.` : ''

/** A text that a person types, kept beside what the server has, until it is sent. */
export function useField(value: string): readonly [string, (value: string) => void] {
  const [typed, setTyped] = useState<{ from: string; text: string }>()
  return [typed && typed.from === value ? typed.text : value, text => setTyped({ from: value, text })]
}
