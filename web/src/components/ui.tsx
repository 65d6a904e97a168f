// The small parts that every page is made of.
import { Check, Copy as CopyIcon, LoaderCircle } from 'lucide-react'
import { type ComponentProps, type ReactNode, useEffect, useState } from 'react'
import type { ApiError } from '@/api/client'
import { line } from '@/lib/clean'
import { useNow } from '@/lib/clock'
import { absolute, ago } from '@/lib/format'

export const cx = (...names: (string | false | undefined)[]): string => names.filter(Boolean).join(' ')

type Look = 'primary' | 'danger' | 'plain' | 'quiet'
const looks: Record<Look, string> = {
  primary: 'bg-primary text-primary-fg hover:opacity-90',
  danger: 'border border-danger text-danger hover:bg-removed',
  plain: 'border bg-panel hover:bg-muted',
  quiet: 'text-muted-fg hover:bg-muted hover:text-fg',
}

export function Button({
  look = 'plain',
  busy,
  hotkey,
  className,
  children,
  ...rest
}: ComponentProps<'button'> & { look?: Look; busy?: boolean; hotkey?: string }) {
  return (
    <button type="button" {...rest} disabled={rest.disabled || busy} className={cx(buttonClass(look), className)}>
      {busy && <LoaderCircle aria-hidden className="size-4 motion-safe:animate-spin" />}
      {children}
      {hotkey && <Kbd>{hotkey}</Kbd>}
    </button>
  )
}

export const buttonClass = (look: Look): string =>
  cx(
    'relative inline-flex min-h-9 items-center justify-center gap-2 overflow-hidden rounded-md px-3 text-sm font-medium whitespace-nowrap disabled:opacity-50 max-md:min-h-11',
    looks[look],
  )

export function Kbd({ children }: { children: ReactNode }) {
  return (
    <kbd aria-hidden className="rounded border border-current/30 px-1 font-mono text-[11px] leading-4 max-md:hidden">
      {children}
    </kbd>
  )
}

/** Words of an agent, a person or a source: text, never markup, with what it hides. */
export function Foreign({ text, className }: { text: string; className?: string }) {
  return <span className={cx('foreign', className)}>{line(text)}</span>
}

export function Section({ title, children, aside }: { title: string; children: ReactNode; aside?: ReactNode }) {
  return (
    <section className="mt-6">
      <div className="mb-2 flex flex-wrap items-baseline justify-between gap-x-3">
        <h2 className="text-xs font-semibold tracking-wide text-muted-fg uppercase">{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  )
}

/** An id, or a command, that can be copied. */
export function Copy({ text, label, className }: { text: string; label?: string; className?: string }) {
  const [copied, setCopied] = useState(false)
  return (
    <button
      type="button"
      className={cx('inline-flex max-w-full min-w-0 items-center gap-1 rounded font-mono text-xs text-muted-fg hover:text-fg', className)}
      title={`Copy ${text}`}
      onClick={() => {
        void navigator.clipboard?.writeText(text).then(() => {
          setCopied(true)
          setTimeout(() => setCopied(false), 1_500)
        })
      }}
    >
      <span className="truncate">{label ?? text}</span>
      {copied ? (
        <Check aria-label="copied" className="size-3 shrink-0 text-ok" />
      ) : (
        <CopyIcon aria-label="copy" className="size-3 shrink-0" />
      )}
    </button>
  )
}

/** A time as it is said, with the exact one behind it. */
export function When({ at }: { at: string }) {
  const now = useNow()
  return <Time at={at}>{ago(at, now)}</Time>
}

/** Words for a time. The exact one is shown to a pointer that stays on them, and below them once they are touched. */
export function Time({ at, className, children }: { at: string; className?: string; children: ReactNode }) {
  return (
    <time
      dateTime={at}
      title={absolute(at)}
      tabIndex={-1}
      className={cx('whitespace-nowrap focus:after:block focus:after:whitespace-pre focus:after:content-[attr(title)]', className)}
    >
      {children}
    </time>
  )
}

/** A time, local and in UTC, as text. */
export function Exactly({ at }: { at: string }) {
  return <span className="block text-xs whitespace-pre text-muted-fg">{absolute(at)}</span>
}

/** A sentence and the one next step. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-3 px-6 py-16 text-center">
      <p className="text-base font-medium">{title}</p>
      <div className="w-full text-muted-fg">{children}</div>
    </div>
  )
}

/** What went wrong, what to do, and what to tell whoever runs the server. */
export function Failed({ error, retry }: { error: ApiError; retry?: () => void }) {
  const { title, detail, hint, code, type, trace_id: trace } = error.problem
  // The shell says it once, for every page.
  if (code === 'unauthenticated') return null
  return (
    <div role="alert" className="m-4 rounded-md border border-danger bg-removed p-4">
      <p className="font-medium">{title}</p>
      <p className="foreign">{line(detail)}</p>
      {hint && <p className="mt-1">{line(hint)}</p>}
      <p className="mt-2 flex flex-wrap items-center gap-3 text-xs">
        {type && (
          <a className="underline" href={type}>
            {code}
          </a>
        )}
        {trace && <Copy text={trace} label={`trace ${trace}`} />}
        {retry && (
          <Button className="min-h-7" onClick={retry}>
            Try again
          </Button>
        )}
      </p>
    </div>
  )
}

/** Whether the component is there for longer than a moment: what is shown only then does not flicker. */
export function useLate(ms = 200): boolean {
  const [late, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), ms)
    return () => clearTimeout(timer)
  }, [ms])
  return late
}

/** Shown only when it takes longer than a moment. */
export function Loading() {
  const late = useLate()
  return (
    <div aria-busy className="space-y-3 p-4">
      {late && [0, 1, 2].map(row => <div key={row} className="h-12 motion-safe:animate-pulse rounded-md bg-muted" />)}
      <span className="sr-only">Loading</span>
    </div>
  )
}

export const fieldClass = 'min-h-9 w-full rounded-md border bg-panel px-3 py-1.5 text-sm text-fg placeholder:text-muted-fg max-md:min-h-11'
