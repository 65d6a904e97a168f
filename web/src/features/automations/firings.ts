// What triggers came to, in words: also what did not run, and why. Pure.
import type { Firing, Schemas } from '@/api/types'

const REASONS: Record<Schemas['FiringReason'], string> = {
  on_time: 'it was due.',
  caught_up: 'it was missed, and caught up.',
  manual: 'somebody asked for it.',
  rerun: 'somebody ran a run once more.',
  catch_up_none: 'it was missed, and missed times do not run.',
  superseded: 'it was missed, and only the last of the missed times runs.',
  outside_window: 'it was missed too long ago to be caught up.',
  over_max: 'more times were missed than are caught up.',
  dst_gap: 'its day has no such time: the clocks went forward.',
  paused: 'the automation was paused.',
  disabled: 'the trigger was disabled.',
  filtered: 'the filter of the webhook does not accept it.',
  already_running: 'a run had not ended yet.',
  queue_full: 'as many runs as may wait were waiting.',
  rate_limited: 'it fired too often.',
  debounced: 'another one followed soon after, which counts instead.',
  batched: 'it is part of a run for several events.',
  same_key: 'it came before, with the same key.',
  same_event: 'the same event had fired it before.',
  inputs_invalid: 'its inputs do not fit.',
  budget_estimate: 'it would likely cost more than it may.',
  loop_guard: 'a run of this automation had caused it.',
  chain_too_deep: 'too many runs had led to it.',
  creator_inactive: 'whoever saved the automation may no longer act.',
  action_unavailable: 'an action of its plan is no longer there.',
  breaker_open: 'it fired too often for too long: the trigger is disabled until a person enables it.',
  filter_too_costly: 'its filter takes too much work: the trigger is disabled until a person enables it.',
}

/** Why a firing came to what it came to, after a colon. */
export const reasonInWords = (reason: Schemas['FiringReason']): string => REASONS[reason]

/** What a firing is about, for a row. */
export function firingInWords(firing: Pick<Firing, 'outcome' | 'reason' | 'count' | 'trigger_id'>): string {
  const what = firing.outcome === 'started' ? 'Started' : 'Did not run'
  const often = firing.count > 1 ? `, ${firing.count} times` : ''
  return `${what}${often}: ${REASONS[firing.reason]}`
}
