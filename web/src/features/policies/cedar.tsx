// The org's policies in Cedar: a draft that the server checks as it is typed, tried on recorded calls before it is saved.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { ApiError } from '@/api/client'
import type { Schemas } from '@/api/types'
import { Diff, Pre } from '@/components/changes'
import { Dialog, DialogFoot } from '@/components/dialog'
import { Asked, More } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, cx, Failed, Loading, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { lineDiff } from '@/lib/diff'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { useDraft } from './draft'
import { Editor } from './editor'
import { isSame, NO_POLICIES, offsetOf, type PolicySet, SETS, setOf } from './model'
import { MayNot, TabHead, voidedText, Who } from './parts'
import { changed, policiesQuery, policyCheckQuery, policySchemaQuery, policyVersionsQuery, setPolicies } from './queries'
import { WhatIfSummary } from './what-if-summary'

const route = getRouteApi('/policies/cedar')
const CHECK_MS = 600

const EXAMPLE = `// Agents write nothing at night without a person.
@id("abac.night")
forbid (
  principal is Countersign::Agent,
  action in Countersign::Action::"class:write",
  resource
)
when { context.now.toTime() >= duration("22h") }
unless { context has approval };
`

export function Cedar() {
  const { set: named, version } = route.useSearch()
  const current = useQuery(policiesQuery)
  if (current.error) return <Failed error={current.error as ApiError} retry={() => void current.refetch()} />
  if (!current.data) return <Loading />
  const chosen = SETS.find(each => each.set === named)?.set ?? filled(current.data.policies)
  return (
    <>
      <TabHead name="Cedar" verbs={<Copy text="countersign policy show" />}>
        The org’s own rules. They come on top of the builtin ones and can only make a call stricter; a permit in rbac gives permissions.{' '}
        <a href="/docs/concepts/policies" className="text-primary underline">
          How to write them
        </a>
      </TabHead>
      {version ? <Version current={current.data} version={Number(version)} /> : <Edit current={current.data} chosen={chosen} />}
      <Versions current={current.data} />
      <Vocabulary />
    </>
  )
}

const filled = (texts: Schemas['PoliciesFile']): PolicySet => SETS.find(({ set }) => texts[set] !== '')?.set ?? 'abac'

function Edit({ current, chosen }: { current: Schemas['PoliciesView']; chosen: PolicySet }) {
  const navigate = useNavigate({ from: '/policies/cedar' })
  const { draft, keep } = useDraft()
  const mayChange = useMay().includes('manage_policy')
  const [isSaving, setSaving] = useState(false)
  const [place, setPlace] = useState<{ set: PolicySet; offset: number }>()
  const editor = useRef<HTMLTextAreaElement>(null)
  const texts = draft?.texts ?? current.policies
  const base = draft?.base ?? current
  const settled = useSettled(texts)
  const check = useQuery(policyCheckQuery(draft ? settled : undefined))
  const refusal = check.error instanceof ApiError ? check.error : undefined
  const errors = draft ? (refusal?.problem.errors ?? []) : []
  const isChecked = !!draft && settled === texts && !check.isFetching
  const isValid = isChecked && !!check.data
  const change = (text: string) => keep({ base, texts: { ...texts, [chosen]: text } })
  // To the place of an error: its set may have to be shown first.
  useEffect(() => {
    if (place?.set !== chosen) return
    editor.current?.focus()
    editor.current?.setSelectionRange(place.offset, place.offset)
    setPlace(undefined)
  }, [place, chosen])
  const goTo = (error: Schemas['FieldError']) => {
    const set = setOf(error)
    if (!set) return
    if (error.line) setPlace({ set, offset: offsetOf(texts[set], error.line, error.column ?? 1) })
    if (set !== chosen) void navigate({ search: { set } })
  }
  return (
    <>
      {draft && !isSame(current.policies, base.policies) && (
        <div role="alert" className="mb-3 rounded-md border border-warn p-3">
          <p>
            The policies changed after you began this draft: version {current.version} is in force, set by <Who id={current.set_by ?? ''} />
            . Saving would undo that.
          </p>
          <div className="mt-2 flex flex-wrap gap-2">
            <Button onClick={() => keep({ base: current, texts })}>I have seen it: keep my draft</Button>
            <Button onClick={() => keep(undefined)}>Throw my draft away</Button>
          </div>
        </div>
      )}
      <div role="tablist" aria-label="Sets of policies" className="flex gap-1">
        {SETS.map(({ set }) => {
          const wrong = errors.filter(error => setOf(error) === set).length
          return (
            <button
              key={set}
              type="button"
              role="tab"
              id={`tab-${set}`}
              aria-selected={set === chosen}
              aria-controls="policy-text"
              onClick={() => void navigate({ search: { set } })}
              className={cx(
                'rounded-t-md border border-b-0 px-3 py-1.5 font-mono text-[13px]',
                set === chosen ? 'bg-panel font-medium' : 'bg-muted text-muted-fg hover:text-fg',
              )}
            >
              {set}
              {texts[set] !== current.policies[set] && (
                <span className="text-warn" title="changed">
                  {' '}
                  ●
                </span>
              )}
              {wrong > 0 && <span className="text-danger"> {wrong}!</span>}
            </button>
          )
        })}
      </div>
      <div role="tabpanel" id="policy-text" aria-labelledby={`tab-${chosen}`}>
        <Editor
          ref={editor}
          label={`Policies of the set ${chosen}`}
          value={texts[chosen]}
          onChange={change}
          readOnly={!mayChange}
          errors={errors.filter(error => setOf(error) === chosen)}
        />
        <p className="mt-1 text-xs text-muted-fg">{SETS.find(each => each.set === chosen)?.rules}</p>
      </div>
      {!draft && isSame(texts, NO_POLICIES) && mayChange && (
        <p className="mt-3">
          No policy is set.{' '}
          <button
            type="button"
            className="text-primary underline"
            onClick={() => {
              keep({ base, texts: { ...texts, abac: EXAMPLE } })
              void navigate({ search: { set: 'abac' } })
            }}
          >
            Begin with an example
          </button>
        </p>
      )}
      <div aria-live="polite" className="mt-3">
        {errors.length > 0 && (
          <ul className="divide-y rounded-md border border-danger bg-removed">
            {errors.map(error => (
              <li key={`${error.pointer}${error.line}:${error.column}${error.message}`}>
                <button type="button" className="foreign w-full px-3 py-2 text-left hover:underline" onClick={() => goTo(error)}>
                  <code className="mr-2 text-xs">
                    {error.pointer.slice(1)}
                    {error.line != null && ` ${error.line}:${error.column ?? 1}`}
                  </code>
                  {line(error.message)}
                  {error.hint && <span className="block text-xs">{line(error.hint)}</span>}
                </button>
              </li>
            ))}
          </ul>
        )}
        {draft && refusal && errors.length === 0 && <Failed error={refusal} retry={() => void check.refetch()} />}
        {isValid && <p className="text-ok">✓ {counted(check.data.policies, 'policy', 'policies')}, all valid</p>}
        {draft && !isChecked && <p className="text-muted-fg">Checking…</p>}
      </div>
      {mayChange ? (
        <div className="mt-3 flex flex-wrap items-center gap-2">
          <Button look="primary" disabled={!isValid} onClick={() => setSaving(true)}>
            Review & save…
          </Button>
          {draft && (
            <>
              {isValid && (
                <Link to="/policies/what-if" className="text-primary underline">
                  Try it on recorded calls
                </Link>
              )}
              <Button look="quiet" onClick={() => keep(undefined)}>
                Throw the draft away
              </Button>
            </>
          )}
          <span className="text-xs text-muted-fg">
            {current.version > 0 ? (
              <>
                In force: version {current.version}, set by <Who id={current.set_by ?? ''} />{' '}
                {current.set_at && <When at={current.set_at} />}
              </>
            ) : (
              'No policies were ever set.'
            )}
          </span>
        </div>
      ) : (
        <MayNot what="manage_policy" />
      )}
      {isSaving && draft && <SaveDialog current={current} texts={texts} onClose={() => setSaving(false)} />}
    </>
  )
}

/** A value once it has stood still for a moment. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), CHECK_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}

/** What changes in the text, and what that would have changed for recorded calls. */
function SaveDialog({
  current,
  texts,
  onClose,
}: {
  current: Schemas['PoliciesView']
  texts: Schemas['PoliciesFile']
  onClose: () => void
}) {
  const client = useQueryClient()
  const { keep } = useDraft()
  const { say } = useToasts()
  const { error, busy, run } = useSending()
  const save = async () => {
    const { set } = await setPolicies(texts, current)
    if (set) {
      keep(undefined)
      say(`Version ${set.version} of the rules is in force.${voidedText(set.voided)}`)
    }
    onClose()
    await changed(client)
  }
  return (
    <Dialog title="Save these policies" onClose={onClose} wide>
      <div className="mt-3 max-h-[40vh] space-y-3 overflow-auto">
        <Differences before={current.policies} after={texts} />
      </div>
      <WhatIfSummary proposal={{ policies: texts, modes: null, last: '7d' }} />
      <p className="mt-1 text-xs text-muted-fg">
        Approvals of pending calls that these policies would decide become void. The change is signed into the audit log.
      </p>
      {error && <Failed error={error} />}
      <DialogFoot>
        <Button look="quiet" onClick={onClose}>
          Cancel
        </Button>
        <Button look="primary" busy={!!busy} onClick={() => void run('it', save)}>
          Save
        </Button>
      </DialogFoot>
    </Dialog>
  )
}

function Differences({ before, after }: { before: Schemas['PoliciesFile']; after: Schemas['PoliciesFile'] }) {
  const changedSets = SETS.filter(({ set }) => before[set] !== after[set])
  if (changedSets.length === 0) return <p className="text-muted-fg">The text is the same.</p>
  return changedSets.map(({ set }) => (
    <div key={set} className="overflow-hidden rounded-md border bg-panel">
      <p className="border-b bg-muted px-3 py-1 font-mono text-xs">{set}</p>
      <Diff text={lineDiff(before[set], after[set])} />
    </div>
  ))
}

/** One earlier version, beside what is in force. */
function Version({ current, version }: { current: Schemas['PoliciesView']; version: number }) {
  const navigate = useNavigate({ from: '/policies/cedar' })
  const { keep } = useDraft()
  const mayChange = useMay().includes('manage_policy')
  const versions = useInfiniteQuery(policyVersionsQuery)
  const found = versions.data?.pages.flatMap(page => page.items).find(each => each.version === version)
  if (!found) return versions.isPending ? <Loading /> : <p>Version {version} is not among those below: show more of them.</p>
  return (
    <>
      <p className="mb-2">
        Version {version}, set by <Who id={found.set_by ?? ''} /> {found.set_at && <When at={found.set_at} />}
        {version === current.version ? ', is in force.' : `. What has changed since, to version ${current.version}:`}
      </p>
      {version === current.version ? (
        SETS.filter(({ set }) => found.policies[set]).map(({ set }) => (
          <div key={set} className="mb-3">
            <p className="font-mono text-xs text-muted-fg">{set}</p>
            <Pre text={found.policies[set]} />
          </div>
        ))
      ) : (
        <Differences before={found.policies} after={current.policies} />
      )}
      <div className="mt-3 flex flex-wrap gap-2">
        <Button onClick={() => void navigate({ search: {} })}>Back to the editor</Button>
        {mayChange && version !== current.version && (
          <Button
            onClick={() => {
              keep({ base: current, texts: found.policies })
              void navigate({ search: { set: filled(found.policies) } })
            }}
          >
            Make a draft of version {version}
          </Button>
        )}
      </div>
    </>
  )
}

function Versions({ current }: { current: Schemas['PoliciesView'] }) {
  const versions = useInfiniteQuery(policyVersionsQuery)
  const items = versions.data?.pages.flatMap(page => page.items) ?? []
  return (
    <Section title="Versions" aside={<Copy text="countersign policy versions" />}>
      <Asked query={versions} />
      {versions.data && items.length === 0 && <p className="text-muted-fg">None yet.</p>}
      <ul className="divide-y rounded-md border bg-panel empty:hidden">
        {items.map(each => (
          <li key={each.version} className="flex flex-wrap items-baseline gap-x-3 px-3 py-2">
            <Link to="/policies/cedar" search={{ version: String(each.version) }} className="text-primary underline">
              Version {each.version}
            </Link>
            <span className="text-xs text-muted-fg">
              {each.set_at && <When at={each.set_at} />} by <Who id={each.set_by ?? ''} />
            </span>
            {each.version === current.version && <span className="text-xs font-medium text-ok">in force</span>}
          </li>
        ))}
      </ul>
      <More query={versions}>Show more</More>
    </Section>
  )
}

/** The vocabulary is long: it is asked for when it is opened. */
function Vocabulary() {
  const [isOpen, setOpen] = useState(false)
  const schema = useQuery({ ...policySchemaQuery, enabled: isOpen })
  return (
    <Section title="What policies can refer to" aside={<Copy text="countersign policy schema" />}>
      <details onToggle={event => setOpen(event.currentTarget.open)}>
        <summary className="cursor-pointer text-primary">The Cedar schema of this org</summary>
        <Asked query={schema} />
        {schema.data && <Pre text={schema.data.schema} />}
      </details>
    </Section>
  )
}
