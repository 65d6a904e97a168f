// What can be done with a card of a list.
import { ArrowDown, ArrowUp, Copy, Trash2 } from 'lucide-react'
import { Button } from '@/components/ui'

export type Verbs = { onUp?: () => void; onDown?: () => void; onCopy?: () => void; onRemove: () => void }

export function CardVerbs({ name, verbs }: { name: string; verbs: Verbs }) {
  const all = [
    { word: 'Move up', icon: ArrowUp, act: verbs.onUp },
    { word: 'Move down', icon: ArrowDown, act: verbs.onDown },
    { word: 'Copy', icon: Copy, act: verbs.onCopy },
    { word: 'Remove', icon: Trash2, act: verbs.onRemove },
  ]
  return (
    <span className="ml-auto flex">
      {all.map(({ word, icon: Icon, act }) =>
        act ? (
          <Button key={word} look="quiet" className="px-2" aria-label={`${word}: ${name}`} onClick={act}>
            <Icon aria-hidden className="size-4" />
          </Button>
        ) : null,
      )}
    </span>
  )
}
