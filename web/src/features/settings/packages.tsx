// Packages: what is installed, who put it there, and how its code differs from what was reviewed.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { ArrowLeft } from 'lucide-react'
import { useState } from 'react'
import { Drifted } from '@/components/drifted'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { DriftMark, TierBadge } from '@/components/status'
import { Button, Copy, Empty, Foreign, Loading, Section, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { counted, short } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { type Package, packageQuery, packagesQuery, removePackage } from './queries'

const drifted = (one: Package): number => one.actions.filter(action => action.drift && action.drift !== 'none').length

export function Packages({ chosen, onChoose }: { chosen: string | undefined; onChoose: (name: string | undefined) => void }) {
  const packages = useQuery(packagesQuery)
  if (chosen) return <Detail name={chosen} onBack={() => onChoose(undefined)} />
  return (
    <>
      <Asked query={packages} />
      {packages.isPending && <Loading />}
      {packages.data?.length === 0 && (
        <Empty title="No package is installed">
          <p className="mb-3">A package adds actions with code of your own, which runs in the sandbox.</p>
          <Copy text="countersign package new notes" />
        </Empty>
      )}
      <ul className="divide-y">
        {packages.data?.map(one => (
          <li key={one.name}>
            <button type="button" onClick={() => onChoose(one.name)} className="block w-full px-4 py-3 text-left hover:bg-muted md:px-6">
              <span className="flex flex-wrap items-baseline gap-x-2">
                <Foreign text={one.name} className="font-medium" />
                {drifted(one) > 0 && <DriftMark>{counted(drifted(one), 'action')} drifted</DriftMark>}
                {one.findings.length > 0 && <span className="text-xs text-warn">{counted(one.findings.length, 'finding')}</span>}
              </span>
              <span className="block text-xs text-muted-fg">
                {counted(one.actions.length, 'action')}
                {one.mcp_server && ' · an MCP server'} · {one.code_allowed ? 'its code runs here' : 'this server runs no code of packages'}
              </span>
              {one.error && <span className="foreign block text-xs text-danger">{line(one.error)}</span>}
            </button>
          </li>
        ))}
      </ul>
    </>
  )
}

function Detail({ name, onBack }: { name: string; onBack: () => void }) {
  const client = useQueryClient()
  const read = useQuery(packageQuery(name))
  const mayManage = useMay().includes('manage_policy')
  const nameOf = useNames()
  const [isRemoving, setRemoving] = useState(false)
  const one = read.data
  return (
    <div className="px-4 py-4 md:px-6">
      <button type="button" className="inline-flex items-center gap-1 text-muted-fg hover:text-fg" onClick={onBack}>
        <ArrowLeft aria-hidden className="size-4" /> Packages
      </button>
      <Asked query={read} />
      {read.isPending && <Loading />}
      {one && (
        <>
          <div className="mt-2 flex flex-wrap items-center justify-between gap-2">
            <h2 className="text-lg font-semibold">
              <Foreign text={one.name} />
            </h2>
            {mayManage && (
              <Button look="danger" onClick={() => setRemoving(true)}>
                Remove
              </Button>
            )}
          </div>
          <p className="text-muted-fg">
            {one.installed_by ? (
              <>
                installed by {line(nameOf(one.installed_by))}
                {one.installed_at && (
                  <>
                    {' '}
                    <When at={one.installed_at} />
                  </>
                )}
              </>
            ) : (
              'its folder was put on the server by hand'
            )}
            {one.folder && <> · {line(one.folder)}</>}
          </p>
          {one.sha256 && <Copy text={one.sha256} label={`sha256 ${short(one.sha256)}`} />}
          {one.edited && <p className="mt-2 font-medium text-danger">! Its files are no longer those that were installed.</p>}
          {one.error && <p className="foreign mt-2 text-danger">{line(one.error)}</p>}
          {!one.code_allowed && (
            <p className="mt-2">
              This server runs no code of packages: an operator sets <code>allow_plugin_code_execution</code>.
            </p>
          )}
          <Section title="Actions">
            {one.actions.map(action => (
              <div key={action.id} className="border-t py-2 first:border-t-0">
                <p className="flex flex-wrap items-center gap-x-3">
                  <span className="font-mono text-[13px] font-medium">{action.id}</span>
                  <TierBadge tier={action.tier} />
                  <Foreign text={action.title} className="text-muted-fg" />
                </p>
                {action.cannot_run && <p className="foreign text-xs text-warn">Cannot run here: {line(action.cannot_run)}</p>}
                {action.drift && action.drift !== 'none' && <Drifted action={{ id: action.id, drift: action.drift }} />}
              </div>
            ))}
            {one.actions.length === 0 && <p className="text-muted-fg">None.</p>}
          </Section>
          {one.mcp_server && (
            <Section title="MCP server">
              <p className="foreign font-mono text-xs">{line(one.mcp_server.command.join(' '))}</p>
              <p className="text-muted-fg">
                {one.mcp_server.hosts.length ? `may reach ${line(one.mcp_server.hosts.join(', '))}` : 'reaches no host'}
                {one.mcp_server.sees_workspace && ' · sees the workspace, read-only'}
              </p>
              {one.mcp_server.cannot_run && <p className="foreign text-warn">Cannot run here: {line(one.mcp_server.cannot_run)}</p>}
            </Section>
          )}
          {one.findings.length > 0 && (
            <Section title="Findings">
              {one.findings.map(found => (
                <p key={`${found.file}${found.pointer}${found.rule}`} className="foreign">
                  ! {line(found.file)}: {line(found.message)} ({found.rule} of {found.action})
                </p>
              ))}
            </Section>
          )}
          <Section title="Files" aside={<Copy text={`countersign package show ${one.name}`} />}>
            <ul className="divide-y rounded-md border bg-panel font-mono text-xs">
              {one.files?.map(file => (
                <li key={file.path} className="flex flex-wrap gap-x-3 px-3 py-1.5">
                  <span className="foreign flex-1">{line(file.path)}</span>
                  <span className="text-muted-fg tabular-nums">{file.bytes} bytes</span>
                  <Copy text={file.sha256} label={short(file.sha256)} />
                </li>
              ))}
            </ul>
          </Section>
        </>
      )}
      {isRemoving && (
        <FormDialog
          title={`Remove ${name}`}
          verb="Remove"
          look="danger"
          onClose={() => setRemoving(false)}
          send={async () => {
            await removePackage(name)
            setRemoving(false)
            onBack()
            await client.invalidateQueries()
          }}
        >
          <p>Its actions are gone at once. Their receipts stay, and their effects can be reverted.</p>
          <Copy text={`countersign package remove ${name}`} />
        </FormDialog>
      )}
    </div>
  )
}
