import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'
import { base } from '@/test/server'

const definition = {
  name: 'Morning note',
  plan: [
    { step_id: 'look', action: 'files.list' },
    { step_id: 'tell', action: 'files.write_text' },
  ],
}
const run = {
  id: 'run_1',
  automation_id: 'aut_1',
  automation_name: 'Morning note',
  space_id: 'spc_1',
  session_id: 'ses_1',
  version: 1,
  digest: 'a',
  status: 'waiting',
  waiting_for: 'approval',
  trigger_type: 'manual',
  firing_id: 'fir_1',
  inputs: { greeting: 'Hello' },
  handler_failed: false,
  queue: 'fast',
  phase: 'plan',
  step: 1,
  invocation_id: 'inv_held',
  worked_ms: 12,
  recoveries: 0,
  chain: ['aut_1'],
  root_run_id: 'run_1',
  created_at: '2026-11-18T09:00:00Z',
  started_at: '2026-11-18T09:00:00Z',
  steps: [
    {
      phase: 'plan',
      index: 0,
      step_id: 'look',
      action: 'files.list',
      status: 'succeeded',
      output: { entries: [] },
      started_at: '2026-11-18T09:00:00.000Z',
      ended_at: '2026-11-18T09:00:00.020Z',
    },
  ],
}
const held = {
  ...base,
  id: 'inv_held',
  principal: 'automation:aut_1',
  trace_id: 'run_1',
  reason: 'step `tell` of the automation `Morning note`',
  expires_at: new Date(Date.now() + 600_000).toISOString(),
}
const automation = { id: 'aut_1', name: 'Morning note', version: 2, digest: 'b', definition: { ...definition, goal: 'New' }, triggers: [] }
const member = { org_id: 'org_x', principal: 'user:usr_x', name: 'ada', role: 'member', permissions: ['read', 'invoke', 'approve'] }
const answers = (shown: () => unknown) => ({
  'GET /api/v1/whoami': () => member,
  'GET /api/v1/runs/run_1': shown,
  'GET /api/v1/automations/aut_1': () => automation,
  'GET /api/v1/automations/aut_1/export': () => definition,
  'GET /api/v1/invocations/inv_held': () => ({ invocation: held }),
  'GET /api/v1/invocations/inv_held/foresight': () => ({}),
})
const steps = async () => within(await screen.findByRole('region', { name: 'Steps' }))

test('a step that waits is answered on the page of its run', async () => {
  let shown: object = run
  const { server, user } = openPage('/runs/run_1', {
    ...answers(() => shown),
    'POST /api/v1/invocations/inv_held/approve': () => ({ invocation: { ...held, status: 'running' } }),
  })
  const step = within(await screen.findByRole('region', { name: 'The selected step' }))
  expect((await step.findByRole('link', { name: 'run run_1' })).closest('p')?.textContent).toContain('step tell')
  const approve = await step.findByRole('button', { name: /^Approve once/ })
  await waitFor(() => expect((approve as HTMLButtonElement).disabled).toBe(false))
  shown = {
    ...run,
    status: 'succeeded',
    waiting_for: null,
    invocation_id: null,
    step: 2,
    steps: [...run.steps, { ...run.steps[0], index: 1, step_id: 'tell' }],
  }
  await user.click(approve)
  await waitFor(() => expect(server.asked.some(asked => asked.path.endsWith('/approve'))).toBe(true))
  server.event('automation.run.succeeded', 'run_1', 5)
  expect(await screen.findByText('Every step of it succeeded or was skipped.')).toBeTruthy()
  expect((await steps()).getAllByText('succeeded')).toHaveLength(2)
})

test('a run is run again from a step, and then the new run is shown', async () => {
  const failed = {
    ...run,
    status: 'failed',
    waiting_for: null,
    invocation_id: null,
    error: { code: 'x', message: 'no', step_id: 'tell' },
    steps: [
      ...run.steps,
      { ...run.steps[0], index: 1, step_id: 'tell', status: 'failed', error: { code: 'x', message: 'it broke' }, output: undefined },
    ],
  }
  const { server, user, router } = openPage('/runs/run_1', {
    ...answers(() => failed),
    'POST /api/v1/runs/run_1/rerun': () => ({ firing_id: 'fir_2', outcome: 'started', reason: 'rerun', run_id: 'run_2' }),
  })
  expect(await screen.findByText('it broke')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Run again from here' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/runs/run_2'))
  expect(server.asked.find(asked => asked.path.endsWith('/rerun'))?.body).toEqual({ from_step: 'tell' })
})

test('the definition of a run is compared with the saved one', async () => {
  const { user } = openPage(
    '/runs/run_1',
    answers(() => run),
  )
  await user.click(await screen.findByRole('button', { name: 'Compare with the saved one' }))
  expect(await screen.findByText(/"goal": "New"/)).toBeTruthy()
})

test('what a firing came to instead of a run is said', async () => {
  const ended = { ...run, status: 'succeeded', waiting_for: null, invocation_id: null }
  const { user } = openPage('/runs/run_1', {
    ...answers(() => ended),
    'POST /api/v1/runs/run_1/rerun': () => ({ firing_id: 'fir_2', outcome: 'dropped', reason: 'already_running', run_id: null }),
  })
  await user.click(await screen.findByRole('button', { name: 'Run again…' }))
  await user.click(await screen.findByRole('button', { name: 'Run it' }))
  expect(await screen.findByText('Nothing was started: a run had not ended yet.')).toBeTruthy()
})

test('runs are listed by automation and status', async () => {
  const { server, user, router } = openPage('/runs', {
    ...answers(() => run),
    'GET /api/v1/runs': () => ({ items: [run], next: null }),
    'GET /api/v1/automations': () => ({ items: [automation], next: null }),
  })
  expect(await within(await screen.findByRole('list', { name: 'Runs' })).findByText('Morning note')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'failed' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ status: 'failed' }))
  await waitFor(() => expect(server.asked.some(asked => asked.path.includes('status=failed'))).toBe(true))
})
