// The policies as a person would have them. They are kept in this tab until they are saved or thrown away, also while another page is shown.
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from 'react'
import type { Schemas } from '@/api/types'
import { isSame } from './model'

/** `base` is what was in force when the draft was begun. */
export type Draft = { base: Schemas['PoliciesView']; texts: Schemas['PoliciesFile'] }
type Drafting = { draft: Draft | undefined; keep: (draft: Draft | undefined) => void }

const KEY = 'policy-draft'
const Context = createContext<Drafting>({ draft: undefined, keep: () => {} })

function stored(): Draft | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}

export function DraftProvider({ children }: { children: ReactNode }) {
  const [draft, setDraft] = useState(stored)
  const keep = useCallback((next: Draft | undefined) => {
    // What is as it was is no draft.
    const kept = next && !isSame(next.texts, next.base.policies) ? next : undefined
    if (kept) sessionStorage.setItem(KEY, JSON.stringify(kept))
    else sessionStorage.removeItem(KEY)
    setDraft(kept)
  }, [])
  const value = useMemo(() => ({ draft, keep }), [draft, keep])
  return <Context value={value}>{children}</Context>
}

export const useDraft = (): Drafting => useContext(Context)
