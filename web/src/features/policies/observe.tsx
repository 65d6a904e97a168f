// What people would have been asked in a space that observes, and the rules with which they would be asked less.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { TierBadge } from '@/components/status'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Empty, Foreign, Loading, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { spacesQuery } from '@/lib/spaces'
import { GiveDialog } from './give-grant'
import { giveCommand, quoted } from './model'
import { Select, TabHead, voidedText } from './parts'
import { changed, observedQuery, setMode } from './queries'
import { WhatIfSummary } from './what-if-summary'

const route = getRouteApi('/policies/observe')

const SPARED: Record<Schemas['Observed'], string> = {
  mode: 'the mode allow',
  grant: 'a grant',
  person: 'nothing: a person',
  held: 'nothing: R4, and a person was asked',
}

export function Observe() {
  const { space: named, since = '24h' } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/observe' })
  const spaces = useQuery(spacesQuery)
  const chosen = named ?? (spaces.data?.find(space => space.observes) ?? spaces.data?.[0])?.id
  const report = useQuery(observedQuery(chosen, since))
  const space = spaces.data?.find(each => each.id === chosen)
  return (
    <>
      <TabHead
        name="Observe"
        verbs={<Copy text={`countersign observe report --space ${quoted(space?.name ?? chosen ?? 'main')} --since ${since}`} />}
      >
        A space that observes lets run what needs approval, and notes it. The report says what would have been asked, and which rules would
        spare people how much of it.
      </TabHead>
      <div className="flex flex-wrap gap-2 pb-3">
        <Select
          label="Space"
          value={chosen ?? ''}
          onChange={value => void navigate({ search: old => ({ ...old, space: value }), replace: true })}
          options={(spaces.data ?? []).map(each => [each.id, `${line(each.name)}${each.observes ? ', observes' : ''}`] as const)}
          className="sm:w-64"
        />
        <Select
          label="Since"
          value={since}
          onChange={value => void navigate({ search: old => ({ ...old, since: value }), replace: true })}
          options={['1h', '24h', '7d', '30d'].map(each => [each, `the last ${each}`] as const)}
          className="sm:w-44"
        />
      </div>
      <Asked query={spaces} />
      <Asked query={report} />
      {report.isPending && chosen && <Loading />}
      {report.data && <Report report={report.data} name={line(space?.name ?? report.data.space_id)} />}
    </>
  )
}

function Report({ report, name }: { report: Schemas['ObserveReport']; name: string }) {
  const may = useMay()
  const suggestions = report.modes.length + report.grants.length
  return (
    <>
      {!report.observes && (
        <p className="mb-3 rounded-md border p-3">
          {name} does not observe now: it asks. What it noted while it observed is below.{' '}
          <Link to="/policies/spaces/$space" params={{ space: report.space_id }} className="text-primary underline">
            Let it observe
          </Link>
        </p>
      )}
      {report.asked === 0 ? (
        <Empty title="Nobody would have been asked">No call of this time in {name} was noted.</Empty>
      ) : (
        <>
          <p className="text-lg">
            <b className="tabular-nums">{counted(report.asked, 'question')}</b>, and <b className="tabular-nums">{report.still_asked}</b>{' '}
            with all that is suggested
          </p>
          <p className="text-xs text-muted-fg">
            from <When at={report.since} /> to <When at={report.until} />
            {report.cut && '; there are more rows, which are not counted'}
          </p>
          <Section title="Suggested">
            {suggestions === 0 && <p className="text-muted-fg">Nothing was asked often enough: what is asked seldom is better asked on.</p>}
            <ul className="divide-y rounded-md border bg-panel empty:hidden">
              {report.modes.map(each => (
                <li key={each.action}>
                  <SuggestedMode suggested={each} mayChange={may.includes('manage_policy')} />
                </li>
              ))}
              {report.grants.map(each => (
                <li key={`${each.grant.covers}${each.grant.session_id}`}>
                  <SuggestedGrant suggested={each} mayGive={may.includes('approve')} />
                </li>
              ))}
            </ul>
          </Section>
          <Section title="What would have been asked">
            <ul className="divide-y rounded-md border bg-panel">
              {report.rows.map(row => (
                <li
                  key={`${row.action}${row.session_id}${row.observed}`}
                  className="grid gap-x-4 px-3 py-2 sm:grid-cols-[4rem_minmax(0,1fr)_minmax(0,1fr)_14rem] sm:items-baseline"
                >
                  <span className="font-medium tabular-nums sm:text-right">{row.calls}×</span>
                  <span className="min-w-0">
                    <code className="text-[13px]">{row.action}</code> <TierBadge tier={row.tier} />
                  </span>
                  <Link to="/policies/sessions/$session" params={{ session: row.session_id }} className="truncate underline">
                    <Foreign text={row.session_title || row.session_id} />
                  </Link>
                  <span className="text-xs text-muted-fg">spared by {SPARED[row.observed]}</span>
                </li>
              ))}
            </ul>
          </Section>
        </>
      )}
    </>
  )
}

function SuggestedMode({ suggested, mayChange }: { suggested: Schemas['SuggestedMode']; mayChange: boolean }) {
  const client = useQueryClient()
  const { say } = useToasts()
  const [isAsking, setAsking] = useState(false)
  const { action, mode, calls, tier } = suggested
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2 px-3 py-2">
      <p className="min-w-0 flex-1">
        <code className="text-[13px]">
          org: {action} → {mode}
        </code>{' '}
        <TierBadge tier={tier} />
        <span className="block text-xs text-muted-fg">spares {counted(calls, 'question')}; it holds for the whole org</span>
      </p>
      <Copy text={`countersign mode set ${action} ${mode}`} className="max-lg:hidden" />
      {mayChange && <Button onClick={() => setAsking(true)}>Set it…</Button>}
      {isAsking && (
        <FormDialog
          title={`Set ${action} to ${mode}`}
          verb="Set it"
          onClose={() => setAsking(false)}
          send={async () => {
            const { voided } = await setMode(action, undefined, mode, false)
            setAsking(false)
            say(`org: ${action} → ${mode}.${voidedText(voided)}`)
            await changed(client)
          }}
        >
          <p>This rule is written for the whole org, not for this space alone.</p>
          <WhatIfSummary proposal={{ policies: null, modes: [{ action, mode }], last: '7d' }} />
          <Copy text={`countersign mode set ${action} ${mode}`} />
        </FormDialog>
      )}
    </div>
  )
}

function SuggestedGrant({ suggested, mayGive }: { suggested: Schemas['SuggestedGrant']; mayGive: boolean }) {
  const { say } = useToasts()
  const [isGiving, setGiving] = useState(false)
  const { grant, calls, tier } = suggested
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2 px-3 py-2">
      <p className="min-w-0 flex-1">
        a grant for <code className="text-[13px]">{grant.covers}</code> <TierBadge tier={tier} />
        <span className="block text-xs text-muted-fg">
          spares {counted(calls, 'question')}; {grant.calls_max ? counted(grant.calls_max, 'call') : 'any number of calls'},{' '}
          {grant.expires_in ?? '24h'}, in this space alone
        </span>
      </p>
      <Copy text={giveCommand(grant)} className="max-w-72 max-lg:hidden" />
      {mayGive && <Button onClick={() => setGiving(true)}>Give it…</Button>}
      {isGiving && (
        <GiveDialog
          start={grant}
          onClose={() => setGiving(false)}
          onGiven={given => say(`The grant ${given.id} for ${given.covers} is given.`)}
        />
      )}
    </div>
  )
}
