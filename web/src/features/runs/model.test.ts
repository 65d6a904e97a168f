import { expect, test } from 'vitest'
import type { Run } from '@/api/types'
import { firstToSee, inWords, isAbout, lasted, linesOf, noRerunFrom, reached, shares, startedBy, stepThatMade } from './model'

const run = (more: Partial<Run> = {}): Run =>
  ({ id: 'run_1', status: 'waiting', waiting_for: 'approval', phase: 'plan', step: 1, trigger_type: 'manual', steps: [], ...more }) as Run
const step = (index: number, status: 'succeeded' | 'failed' | 'timed_out' | 'skipped', ms: number, more: object = {}) => ({
  phase: 'plan' as const,
  index,
  step_id: ['look', 'tell', 'last'][index] ?? '',
  action: 'files.list',
  status,
  started_at: '2026-11-18T09:00:00.000Z',
  ended_at: new Date(Date.parse('2026-11-18T09:00:00.000Z') + ms).toISOString(),
  ...more,
})
const definition = {
  plan: ['look', 'tell', 'last'].map(step_id => ({ step_id, action: 'files.list' })),
  execution: { on_failure: [{ step_id: 'alarm', action: 'notify.send' }] },
}
const states = (lines: ReturnType<typeof linesOf>) => lines.map(line => `${line.id} ${line.state}`)

test('a run shows every step of its plan, and where it is', () => {
  const lines = linesOf(run({ steps: [step(0, 'succeeded', 20)] }), definition)
  expect(states(lines)).toEqual(['look succeeded', 'tell waiting', 'last ahead'])
  expect(firstToSee(lines)?.id).toBe('tell')
})

test('a run that took too long shows the step that did first', () => {
  const lines = linesOf(run({ status: 'timed_out', steps: [step(0, 'succeeded', 20), step(1, 'timed_out', 80)] }), definition)
  expect(states(lines)).toEqual(['look succeeded', 'tell timed_out', 'last not_reached'])
  expect(firstToSee(lines)?.id).toBe('tell')
})

test('a run that failed shows what it did not reach, and its steps for failures', () => {
  const failed = run({
    status: 'failed',
    phase: 'on_failure',
    step: 1,
    steps: [step(0, 'succeeded', 20), step(1, 'failed', 80), step(0, 'succeeded', 5, { phase: 'on_failure', step_id: 'alarm' })],
  })
  const lines = linesOf(failed, definition)
  expect(states(lines)).toEqual(['look succeeded', 'tell failed', 'last not_reached', 'alarm succeeded'])
  expect(firstToSee(lines)?.id).toBe('tell')
  expect(shares(lines)).toEqual([25, 100, 0, 6])
  expect(lines.map(line => noRerunFrom(failed, line))).toEqual([
    undefined,
    undefined,
    'The run did not come so far.',
    'A run begins with a step of its plan.',
  ])
  expect(noRerunFrom(run(), lines[0] as never)).toBe('The run has not ended.')
  const ended = { status: 'failed' as const, digest: 'a' }
  expect(noRerunFrom(ended, lines[0] as never, 'a')).toBeUndefined()
  expect(noRerunFrom(ended, lines[0] as never, 'b')).toBe('Another definition is saved by now: only all of it can be run again.')
})

test('what is recorded is shown without a definition, and what was copied took no time', () => {
  const lines = linesOf(
    run({ status: 'succeeded', steps: [step(0, 'succeeded', 20, { copied_from: 'run_0' }), step(1, 'skipped', 0)] }),
    undefined,
  )
  expect(states(lines)).toEqual(['look succeeded', 'tell skipped'])
  expect(lines[0]?.ms).toBeUndefined()
})

test('a run says in words what it waits for, what started it and how long it took', () => {
  expect(inWords(run())).toContain('for a person to approve its step')
  expect(inWords(run({ status: 'failed', handler_failed: true }))).toContain('so did its steps for failures')
  expect(startedBy(run())).toBe('a person or a program')
  expect(reached(run())).toBe('at step 2')
  expect(reached(run({ status: 'succeeded' }))).toBe('every step')
  expect(reached(run({ status: 'failed', phase: 'on_failure' }))).toBe('after a failure')
  expect(startedBy(run({ trigger_type: 'schedule', trigger_id: 'weekdays' }))).toBe('weekdays, a schedule')
  expect(lasted({ started_at: '2026-11-18T09:00:00Z', ended_at: null }, Date.parse('2026-11-18T09:00:03Z'))).toBe(3_000)
  expect(lasted({ started_at: null, ended_at: null }, 0)).toBeUndefined()
})

test('an event is about a run if it names the run, or is of one of its calls', () => {
  expect(isAbout({ subject: 'run_1' }, 'run_1')).toBe(true)
  expect(isAbout({ subject: 'inv_1', data: { trace_id: 'run_1' } }, 'run_1')).toBe(true)
  expect(isAbout({ subject: 'inv_1', data: { trace_id: 'run_2' } }, 'run_1')).toBe(false)
})

test('an artifact belongs to the step whose call made it, or whose output it is', () => {
  const lines = linesOf(
    run({
      steps: [step(0, 'succeeded', 1, { invocation_id: null, artifact_id: 'art_1' }), step(1, 'succeeded', 1, { invocation_id: 'inv_1' })],
    }),
    undefined,
  )
  expect(stepThatMade(lines, { id: 'art_1', invocation_id: null })?.id).toBe('look')
  expect(stepThatMade(lines, { id: 'art_2', invocation_id: 'inv_1' })?.id).toBe('tell')
  expect(stepThatMade(lines, { id: 'art_3', invocation_id: null })).toBeUndefined()
})
