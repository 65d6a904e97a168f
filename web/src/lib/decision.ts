// A decision in words: where its mode came from, and what made it stricter.
import type { Schemas } from '@/api/types'

export const MODE_SOURCES: Record<Schemas['ModeSource'], string> = {
  automation_override: 'automation',
  org_default: 'org',
  inferred_default: 'inferred from the tier',
}

/** The decision as one line: `org: allow → drift → require_approval`. */
export function cascade(decision: Schemas['DecisionView']): string[] {
  const steps = [`${MODE_SOURCES[decision.source]}: ${decision.base}`, ...decision.tightened]
  return decision.mode === decision.base ? steps : [...steps, decision.mode]
}
