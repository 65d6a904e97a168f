import { Dialog } from './dialog'
import { Kbd } from './ui'

const KEYS: readonly (readonly [string, string])[] = [
  ['J / K', 'next, previous'],
  ['A', 'approve once (R4: type its name)'],
  ['D', 'deny, with a reason'],
  ['E', 'edit the params, then approve'],
  ['G', 'approve with a grant'],
  ['⇧A', 'always allow'],
  ['L', 'later: decides nothing'],
  ['X / ⇧X', 'select one, select to here'],
  ['N', 'show what is new, clear what has ended'],
  ['/', 'filter'],
  ['Esc', 'close, or clear the selection'],
  ['G I · G R · G A', 'inbox, receipts, actions'],
  ['G M · G U · G T', 'automations, runs, artifacts'],
  ['G S · G K · G Q · G P', 'sources, secrets, quarantine, policies'],
  ['G O · G N · G E · G ,', 'overview, invocations, events, settings'],
  ['⌘K', 'go anywhere'],
]

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="mt-3 grid grid-cols-[8rem_1fr] gap-y-2">
        {KEYS.map(([keys, what]) => (
          <div key={keys} className="contents">
            <dt>
              <Kbd>{keys}</Kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
