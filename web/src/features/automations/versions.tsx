// Every version of an automation, and how one differs from the one before it.
import { useQuery } from '@tanstack/react-query'
import type { ApiError } from '@/api/client'
import type { Automation } from '@/api/types'
import { Diff } from '@/components/changes'
import { Copy, cx, Failed, Loading, When } from '@/components/ui'
import { definitionQuery } from '@/lib/automations'
import { line } from '@/lib/clean'
import { lineDiff } from '@/lib/diff'
import { short } from '@/lib/format'
import { useNames } from '@/lib/names'
import { versionsQuery } from './queries'

type Props = { automation: Automation; chosen: number | undefined; onChoose: (version: number | undefined) => void }

export function Versions({ automation, chosen, onChoose }: Props) {
  const versions = useQuery(versionsQuery(automation.id))
  const nameOf = useNames()
  if (versions.error) return <Failed error={versions.error as ApiError} retry={() => void versions.refetch()} />
  if (!versions.data) return <Loading />
  return (
    <>
      <div className="flex justify-end py-4">
        <Copy text={`countersign automation history ${automation.id}`} />
      </div>
      <ul aria-label="Versions" className="divide-y rounded-md border bg-panel">
        {versions.data.map(version => (
          <li key={version.version}>
            <button
              type="button"
              aria-expanded={version.version === chosen}
              onClick={() => onChoose(version.version === chosen ? undefined : version.version)}
              className="flex w-full flex-wrap items-baseline gap-x-4 px-3 py-2 text-left hover:bg-muted max-md:min-h-11"
            >
              <span className={cx('font-medium', version.version === automation.version && 'text-primary')}>
                Version {version.version}
                {version.version === automation.version && ', in force'}
              </span>
              <span className="text-xs text-muted-fg">
                by {line(nameOf(version.saved_by))} <When at={version.saved_at} />
              </span>
              <code className="ml-auto text-xs text-muted-fg">{short(version.digest)}</code>
            </button>
            {version.version === chosen && <Against automation={automation.id} version={version.version} />}
          </li>
        ))}
      </ul>
    </>
  )
}

function Against({ automation, version }: { automation: string; version: number }) {
  const own = useQuery(definitionQuery(automation, version))
  const before = useQuery({ ...definitionQuery(automation, version - 1), enabled: version > 1 })
  if (own.error) return <Failed error={own.error as ApiError} />
  if (!own.data || (version > 1 && !before.data)) return <Loading />
  const text = (value: unknown) => (value === undefined ? '' : JSON.stringify(value, null, 2))
  return (
    <div className="border-t">
      <p className="px-3 pt-2 text-xs text-muted-fg">{version > 1 ? `How it differs from version ${version - 1}` : 'The first version'}</p>
      <Diff text={lineDiff(text(before.data), text(own.data))} />
    </div>
  )
}
