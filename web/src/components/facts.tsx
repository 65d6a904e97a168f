// What is known of one thing, as a list of names and values.
import type { ReactNode } from 'react'

export function Facts({ children }: { children: ReactNode }) {
  return <dl className="grid gap-x-4 gap-y-1.5 grid-cols-[7rem_minmax(0,1fr)] sm:grid-cols-[10rem_minmax(0,1fr)]">{children}</dl>
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-muted-fg">{name}</dt>
      <dd className="foreign min-w-0">{children}</dd>
    </>
  )
}
