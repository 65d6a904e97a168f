// Dead letters: events, notices and calls that were given up. Each is asked for once more, or dropped.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import type { Schemas } from '@/api/types'
import { Pre } from '@/components/changes'
import { FormDialog } from '@/components/form-dialog'
import { Asked, More } from '@/components/list-page'
import { useToasts } from '@/components/toasts'
import { Button, Copy, Empty, Failed, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { json, line } from '@/lib/clean'
import { counted } from '@/lib/format'
import { useMay } from '@/lib/me'
import { useSending } from '@/lib/sending'
import { CallAgain } from './call-again'
import { grouped, letterInWords, mayRetry } from './model'
import { deadQuery, dropLetter, type LetterKind, letterQuery, retryLetter } from './queries'

type Letter = Schemas['DeadLetterView']

const KINDS: readonly (readonly [LetterKind, string])[] = [
  ['event', 'events that a group gave up'],
  ['delivery', 'notices that no channel could deliver'],
  ['invocation', 'calls that failed again and again'],
]

type Props = {
  kind: LetterKind | undefined
  onKind: (kind: LetterKind | undefined) => void
  /** The one that is shown, by its id; else all. */
  alone: string | undefined
  onAll: () => void
}

export function DeadLetters({ kind, onKind, alone, onAll }: Props) {
  const client = useQueryClient()
  const dead = useInfiniteQuery({ ...deadQuery(kind), enabled: !alone })
  const one = useQuery(letterQuery(alone))
  const read = alone ? one : dead
  const may = useMay()
  const mayDrop = may.includes('manage_policy')
  const { say } = useToasts()
  const { error, busy, run } = useSending<string>()
  const [dropping, setDropping] = useState<readonly Letter[]>()
  const [calling, setCalling] = useState<Letter>()
  const letters = alone ? (one.data ? [one.data] : []) : (dead.data?.pages.flatMap(page => page.items) ?? [])
  const done = async (words: string) => {
    say(words)
    // It is no dead letter any more.
    if (alone) onAll()
    await client.invalidateQueries({ queryKey: ['dead'] })
  }
  const retry = (word: string, chosen: readonly Letter[]) =>
    run(word, async () => {
      const { count, refusal } = await each(chosen, letter => retryLetter(letter.id))
      if (count > 0) await done(`${counted(count, 'dead letter')} on the way once more.`)
      if (refusal) throw refusal
    })
  return (
    <div>
      <div className="border-b px-4 py-2 md:px-6">
        {alone ? (
          <Button look="quiet" onClick={onAll}>
            Show all
          </Button>
        ) : (
          <select
            aria-label="Kind"
            value={kind ?? ''}
            onChange={event => onKind((event.target.value || undefined) as LetterKind | undefined)}
            className={`${fieldClass} sm:max-w-80`}
          >
            <option value="">of any kind</option>
            {KINDS.map(([name, words]) => (
              <option key={name} value={name}>
                {words}
              </option>
            ))}
          </select>
        )}
      </div>
      <Asked query={read} />
      {error && <Failed error={error} />}
      {read.isPending && <Loading />}
      {!alone && dead.data && letters.length === 0 && !dead.hasNextPage && (
        <Empty title="No dead letters">
          <p className="mb-3">
            An event that its group does not take, a notice that no channel could deliver and a call whose attempts are used up end here.
          </p>
          {kind ? (
            <Button onClick={onAll}>Show all</Button>
          ) : (
            <Link to="/events" className="text-primary underline">
              To the events
            </Link>
          )}
        </Empty>
      )}
      {grouped(letters).map(group => {
        const again = group.letters.filter(letter => letter.kind !== 'invocation' && mayRetry(letter.kind, may))
        return (
          <section key={group.problem} aria-label={line(group.problem)}>
            <div className="flex flex-wrap items-center gap-2 border-b bg-muted px-4 py-1 md:px-6">
              <h2 className="foreign min-w-0 flex-1 text-xs">
                <b className="tabular-nums">{group.letters.length}</b> <Foreign text={group.problem} />
              </h2>
              {again.length > 1 && (
                <Button look="quiet" busy={busy === group.problem} onClick={() => void retry(group.problem, again)}>
                  Retry {again.length}
                </Button>
              )}
              {mayDrop && group.letters.length > 1 && (
                <Button look="quiet" onClick={() => setDropping(group.letters)}>
                  Drop {group.letters.length}
                </Button>
              )}
            </div>
            <ul className="divide-y border-b">
              {group.letters.map(letter => (
                <li key={letter.id} className="grid gap-x-4 gap-y-1 px-4 py-2 sm:grid-cols-[minmax(0,1fr)_auto] md:px-6">
                  <About letter={letter} />
                  <div className="flex items-center gap-1 self-start">
                    {mayRetry(letter.kind, may) && (
                      <Button
                        busy={busy === letter.id}
                        aria-label={`Retry ${letter.id}`}
                        onClick={() => (letter.kind === 'invocation' ? setCalling(letter) : void retry(letter.id, [letter]))}
                      >
                        {letter.kind === 'invocation' ? 'Retry…' : 'Retry'}
                      </Button>
                    )}
                    {mayDrop && (
                      <Button look="quiet" aria-label={`Drop ${letter.id}`} onClick={() => setDropping([letter])}>
                        Drop
                      </Button>
                    )}
                  </div>
                </li>
              ))}
            </ul>
          </section>
        )
      })}
      {!alone && <More query={dead} />}
      {dropping && (
        <FormDialog
          title={`Drop ${counted(dropping.length, 'dead letter')}?`}
          verb="Drop"
          look="danger"
          onClose={() => setDropping(undefined)}
          send={async () => {
            const { count, refusal } = await each(dropping, letter => dropLetter(letter.id))
            if (count > 0) await done(`${counted(count, 'dead letter')} dropped.`)
            if (refusal) throw refusal
            setDropping(undefined)
          }}
        >
          <p>Nobody is asked for it again. An event stays in the log, and a call as it is.</p>
          <ul className="max-h-60 list-disc overflow-auto pl-5">
            {dropping.map(letter => (
              <li key={letter.id}>
                <Foreign text={letterInWords(letter)} />
              </li>
            ))}
          </ul>
          {dropping.length === 1 && <Copy text={`countersign event dlq drop ${dropping[0]?.id}`} className="max-w-full" />}
        </FormDialog>
      )}
      {calling && (
        <CallAgain
          letter={calling.id}
          onClose={() => setCalling(undefined)}
          onMade={async made => {
            setCalling(undefined)
            await done(`Called again: ${made.invocation_id} ${made.status?.replace('_', ' ')}.`)
          }}
        />
      )}
    </div>
  )
}

/** One after the other: what is refused stays, and so does the reason of the last refusal. */
async function each(letters: readonly Letter[], ask: (letter: Letter) => Promise<unknown>): Promise<{ count: number; refusal?: ApiError }> {
  let count = 0
  let refusal: ApiError | undefined
  for (const letter of letters) {
    try {
      await ask(letter)
      count += 1
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause
      refusal = cause
    }
  }
  return { count, refusal }
}

function About({ letter }: { letter: Letter }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <div className="min-w-0 text-xs">
      <p className="text-sm">
        <Link to="/events" search={{ tab: 'dead', letter: letter.id }} className="hover:underline">
          <Foreign text={letterInWords(letter)} />
        </Link>
      </p>
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-muted-fg">
        <Copy text={letter.id} />
        <span>
          {counted(letter.attempts, 'attempt')} · given up <When at={letter.died_at} />
        </span>
        {letter.invocation_id && (
          <Link to="/invocations/$invocation" params={{ invocation: letter.invocation_id }} className="text-primary underline">
            The call
          </Link>
        )}
        {letter.event && (
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="text-primary underline">
            {isOpen ? 'Hide the event' : 'The event'}
          </button>
        )}
      </p>
      {isOpen && letter.event && (
        <div className="mt-2">
          <Pre text={json(letter.event)} />
        </div>
      )}
    </div>
  )
}
