// The decision bar: one key for the safe way, friction for the dangerous one.
import { Check, Clock, Pencil, X } from 'lucide-react'
import type { Invocation } from '@/api/types'
import { HoldButton } from '@/components/hold-button'
import { Menu } from '@/components/menu'
import { Button, Kbd } from '@/components/ui'

/** What is open above the page. A union: two at once cannot be said. */
export type Open = 'deny' | 'grant' | 'always' | 'edit' | 'confirm' | undefined

type Props = {
  item: Invocation
  /** Why it cannot be approved now. */
  blocked?: string
  /** What is said to whoever approved it already. */
  hasApproved?: string
  noGrant?: string
  noAlways?: string
  noEdit?: string
  noAnswer?: string
  busy: boolean
  isLater: boolean
  isOneOfMany?: boolean
  onApprove: () => void
  onOpen: (open: Open) => void
  onLater: () => void
}

export function Bar({
  item,
  blocked,
  hasApproved,
  noGrant,
  noAlways,
  noEdit,
  noAnswer,
  busy,
  isLater,
  isOneOfMany,
  onApprove,
  onOpen,
  onLater,
}: Props) {
  if (noAnswer) return <div className={foot}>{noAnswer}</div>
  const isDanger = item.class === 'danger'
  const yes = isOneOfMany ? undefined : 'A'
  return (
    <div className={foot}>
      {hasApproved ? (
        <span className="font-medium">{hasApproved}</span>
      ) : isDanger ? (
        <HoldButton onHeld={onApprove} onKey={() => onOpen('confirm')} disabled={busy || !!blocked} title={blocked}>
          <Check aria-hidden className="size-4" /> Hold to approve {yes && <Kbd>{yes}</Kbd>}
        </HoldButton>
      ) : (
        <span className="inline-flex">
          <Button
            look="primary"
            hotkey={yes}
            busy={busy}
            disabled={!!blocked}
            title={blocked}
            onClick={onApprove}
            className="rounded-r-none"
          >
            {!busy && <Check aria-hidden className="size-4 max-md:hidden" />} Approve once
          </Button>
          <Menu
            label="More ways to approve"
            disabled={busy || !!blocked}
            items={[
              { label: 'Grant…', hotkey: 'G', off: noGrant, onPick: () => onOpen('grant') },
              { label: 'Always allow…', hotkey: '⇧A', off: noAlways, onPick: () => onOpen('always') },
            ]}
          />
        </span>
      )}
      <Button look="danger" hotkey="D" disabled={busy} onClick={() => onOpen('deny')}>
        <X aria-hidden className="size-4 max-md:hidden" /> Deny
      </Button>
      <Button hotkey="E" disabled={busy || !!noEdit} aria-describedby={noEdit && 'no-edit'} onClick={() => onOpen('edit')}>
        <Pencil aria-hidden className="size-4 max-md:hidden" /> Edit
      </Button>
      <Button look="quiet" hotkey="L" disabled={busy} onClick={onLater} className="ml-auto">
        <Clock aria-hidden className="size-4" /> <span className="max-md:sr-only">{isLater ? 'Bring back' : 'Later'}</span>
      </Button>
      {noEdit && (
        <p id="no-edit" className="w-full text-xs text-muted-fg">
          {noEdit}
        </p>
      )}
    </div>
  )
}

const foot = 'flex flex-wrap items-center gap-2 border-t bg-panel px-4 py-3 md:px-6'
