// A text that may be a template: what it could go on with is offered while somebody types.
import { type ComponentProps, type KeyboardEvent, useContext, useEffect, useId, useRef, useState } from 'react'
import { cx, fieldClass } from '@/components/ui'
import { line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { Templates } from './around'
import { completionAt, type Offer, pieces, written } from './completion'
import { insertInto } from './insert'

type Props = Omit<ComponentProps<'textarea'>, 'value' | 'onChange'> & { value: string; onChange: (text: string) => void }

export function TemplateArea({ value, onChange, ...rest }: Props) {
  const vocabulary = useContext(Templates)
  const id = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const behind = useRef<HTMLPreElement>(null)
  const list = useRef<HTMLDivElement>(null)
  // Where somebody types; nowhere once they have moved on.
  const [cursor, setCursor] = useState<number>()
  const [chosen, setChosen] = useState(0)
  const found = vocabulary && cursor !== undefined ? completionAt(value, cursor, vocabulary) : undefined
  const offers = found?.offers ?? []
  const at = Math.min(chosen, offers.length - 1)
  const close = () => setCursor(undefined)
  const offerAt = (place: number) => {
    setCursor(place)
    setChosen(0)
  }
  const pick = (offer: Offer | undefined) => {
    if (!area.current || !found || !offer) return
    area.current.setSelectionRange(found.from, found.to)
    insertInto(area.current, written(value, found, offer))
    close()
  }
  const pressed = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === ' ' && event.ctrlKey) offerAt(event.currentTarget.selectionStart)
    else if (offers.length === 0) return
    else if (event.key === 'ArrowDown') setChosen((at + 1) % offers.length)
    else if (event.key === 'ArrowUp') setChosen((at + offers.length - 1) % offers.length)
    else if (event.key === 'Enter') pick(offers[at])
    else if (event.key === 'Escape') close()
    else return
    event.preventDefault()
  }
  // The focus stays in the field, so nothing else brings what the arrows choose into sight.
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView?.({ block: 'nearest' })
  }, [at])
  return (
    <div className="relative">
      {/* Behind the text, and as wide: only the colour of what is filled in is seen of it. */}
      <pre
        ref={behind}
        aria-hidden
        className={cx(
          fieldClass,
          'absolute inset-0 overflow-hidden border-transparent! font-mono text-xs break-words whitespace-pre-wrap text-transparent!',
        )}
      >
        {pieces(value).map(({ at, text, isCode }) =>
          isCode ? (
            <mark key={at} className="rounded-sm bg-primary/15 text-transparent">
              {text}
            </mark>
          ) : (
            text
          ),
        )}
      </pre>
      <textarea
        {...rest}
        ref={area}
        value={value}
        spellCheck={false}
        aria-autocomplete="list"
        aria-haspopup="listbox"
        aria-controls={found && `${id}-list`}
        aria-activedescendant={found && `${id}-${at}`}
        onChange={event => {
          onChange(event.target.value)
          offerAt(event.target.selectionStart)
        }}
        onKeyDown={pressed}
        onSelect={event => event.currentTarget.selectionStart !== cursor && close()}
        onBlur={close}
        onScroll={event => behind.current?.scrollTo(0, event.currentTarget.scrollTop)}
        className={cx(fieldClass, 'relative block bg-transparent! font-mono text-xs', rest.rows === 1 && 'field-sizing-content')}
      />
      <span aria-live="polite" className="sr-only">
        {found && `${counted(offers.length, 'suggestion')}: the arrows choose, Enter writes it`}
      </span>
      {found && (
        <div
          ref={list}
          id={`${id}-list`}
          role="listbox"
          aria-label="What a template may use"
          className="absolute inset-x-0 top-full z-10 mt-1 max-h-56 overflow-auto rounded-md border bg-panel p-1 shadow-lg"
        >
          {offers.map((offer, index) => (
            <div
              key={offer.text}
              id={`${id}-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === at}
              // The field keeps the focus.
              onMouseDown={event => {
                event.preventDefault()
                pick(offer)
              }}
              onPointerMove={() => setChosen(index)}
              className={cx('flex items-baseline gap-3 rounded px-2 py-1 text-xs max-md:min-h-11', index === at && 'bg-accent')}
            >
              <span className="foreign font-mono">{line(offer.text)}</span>
              {offer.about && <span className="text-muted-fg">{offer.about}</span>}
            </div>
          ))}
        </div>
      )}
    </div>
  )
}
