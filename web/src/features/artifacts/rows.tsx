// Artifacts, each with its size, who made it, and the way to its bytes.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ShieldAlert } from 'lucide-react'
import { useState } from 'react'
import { FormDialog } from '@/components/form-dialog'
import { Button, Copy, Failed, Foreign, When } from '@/components/ui'
import { line } from '@/lib/clean'
import { bytes } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useNames } from '@/lib/names'
import { useSending } from '@/lib/sending'
import { type Artifact, linkQuery, linkTo, quarantine } from './queries'

/** What a browser draws and cannot run. */
const DRAWN = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']

/** A small picture of an image. If it cannot be had, the row says all the same what it is. */
function Thumbnail({ artifact }: { artifact: Artifact }) {
  const link = useQuery(linkQuery(artifact.id))
  const [isBroken, setBroken] = useState(false)
  if (!link.data || isBroken) return null
  return (
    <img
      src={link.data}
      alt={`Preview of ${line(artifact.name)}`}
      loading="lazy"
      onError={() => setBroken(true)}
      className="max-h-24 max-w-40 rounded-sm border bg-bg object-contain"
    />
  )
}

/** The browser saves it: the server never shows it as a page. */
function save(path: string): void {
  const link = document.createElement('a')
  link.href = path
  link.download = ''
  link.click()
}

/** `stepOf` names the step that made it, where the page is that of its run. */
export function ArtifactRows({ items, stepOf }: { items: readonly Artifact[]; stepOf?: (artifact: Artifact) => string | undefined }) {
  const { error, busy, run } = useSending<string>()
  const nameOf = useNames()
  const client = useQueryClient()
  const mayQuarantine = useMay().includes('manage_policy')
  const [taken, setTaken] = useState<Artifact>()
  return (
    <>
      {error && <Failed error={error} />}
      <ul aria-label="Artifacts" className="divide-y rounded-md border bg-panel">
        {items.map(artifact => (
          <li key={artifact.id} className="flex flex-wrap items-start gap-x-4 gap-y-1 px-3 py-2">
            {DRAWN.includes(artifact.media_type) && !artifact.quarantined_at && <Thumbnail artifact={artifact} />}
            <div className="min-w-52 flex-1 text-xs">
              <Link to="/artifacts" search={{ artifact: artifact.id }} className="block truncate text-sm font-medium hover:underline">
                <Foreign text={artifact.name} />
              </Link>
              <p className="text-muted-fg">
                <span className="tabular-nums">{bytes(artifact.size_bytes)}</span> · {line(artifact.media_type)} · made{' '}
                <When at={artifact.created_at} />
                {artifact.expires_at && !artifact.quarantined_at && (
                  <>
                    {' '}
                    · kept until <When at={artifact.expires_at} />
                  </>
                )}
              </p>
              {artifact.quarantined_at && (
                <p className="flex items-start gap-1 font-medium text-warn">
                  <ShieldAlert aria-hidden className="mt-px size-3.5 shrink-0" />
                  <span>
                    in quarantine since <When at={artifact.quarantined_at} />
                    {artifact.quarantined_by && `, by ${line(nameOf(artifact.quarantined_by))}`}: nobody gets its bytes
                  </span>
                </p>
              )}
              <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
                <MadeBy artifact={artifact} step={stepOf?.(artifact)} isOnRun={!!stepOf} />
                <Copy text={artifact.id} />
                <Copy text={artifact.sha256} label="sha256" />
              </p>
            </div>
            {!artifact.quarantined_at && (
              <span className="flex flex-wrap gap-2">
                {mayQuarantine && (
                  <Button look="quiet" aria-label={`Quarantine ${line(artifact.name)}`} onClick={() => setTaken(artifact)}>
                    Quarantine…
                  </Button>
                )}
                <Button
                  busy={busy === artifact.id}
                  aria-label={`Download ${line(artifact.name)}`}
                  onClick={() => void run(artifact.id, async () => save(await linkTo(artifact.id)))}
                >
                  Download
                </Button>
              </span>
            )}
          </li>
        ))}
      </ul>
      {taken && (
        <FormDialog
          title={`Quarantine ${line(taken.name)}?`}
          verb="Take it away for good"
          look="danger"
          onClose={() => setTaken(undefined)}
          send={async () => {
            await quarantine(taken.id)
            setTaken(undefined)
            await client.invalidateQueries({ queryKey: ['artifacts'] })
          }}
        >
          <p>Nobody gets its bytes any more, you included, and every link to it is dead. Its digest stays. That does not end.</p>
        </FormDialog>
      )}
    </>
  )
}

function MadeBy({ artifact, step, isOnRun }: { artifact: Artifact; step: string | undefined; isOnRun: boolean }) {
  return (
    <>
      {step && <span className="text-muted-fg">step {line(step)}</span>}
      {artifact.run_id && !isOnRun && (
        <Link to="/runs/$run" params={{ run: artifact.run_id }} className="text-primary underline">
          its run
        </Link>
      )}
      {artifact.invocation_id && (
        <Link to="/invocations/$invocation" params={{ invocation: artifact.invocation_id }} className="text-primary underline">
          its call
        </Link>
      )}
    </>
  )
}
