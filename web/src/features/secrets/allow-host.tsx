// What an operator runs so that a host may be reached, ready to be copied.
import type { ApiError } from '@/api/client'
import { Copy } from '@/components/ui'
import { safeUrl } from './model'

export function AllowHost({ error, url }: { error: ApiError | undefined; url: string }) {
  const origin = safeUrl(url)?.origin
  if (error?.code !== 'host_not_allowed' || !origin) return null
  return (
    <p className="text-xs">
      An operator: <Copy text={`countersign allow host add ${origin}`} />
    </p>
  )
}
