import { paletteKeys } from '@/lib/hotkeys'
import { Dialog, DialogFoot } from './dialog'
import { PLACES } from './places'
import { Button, Kbd } from './ui'

const KEYS: readonly (readonly [string, string])[] = [
  ['J / K', 'next, previous'],
  ['A', 'approve once (R4: type its name); with a selection, each of it once'],
  ['D', 'deny, with a reason'],
  ['E', 'edit the params, then approve'],
  ['G', 'approve with a grant'],
  ['⇧A', 'always allow'],
  ['L', 'later, or back from there: decides nothing'],
  ['X / ⇧X', 'select one, select to here'],
  ['N', 'show what is new, clear what has ended or was put off'],
  ['/', 'filter'],
  ['Esc', 'close, or clear the selection'],
]

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="mt-3 grid grid-cols-[8rem_minmax(0,1fr)] gap-y-2">
        {[...KEYS, [paletteKeys(), 'go anywhere'] as const, ...PLACES.map(place => [place.keys.toUpperCase(), place.name] as const)].map(
          ([keys, what]) => (
            <div key={keys} className="contents">
              <dt>
                <Kbd>{keys}</Kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ),
        )}
      </dl>
      <DialogFoot>
        <Button onClick={onClose}>Close</Button>
      </DialogFoot>
    </Dialog>
  )
}
