import { screen, waitFor, within } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
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
    'GET /api/v1/automations/aut_1': () => ({ ...automation, digest: run.digest }),
    'POST /api/v1/runs/run_1/rerun': () => ({ firing_id: 'fir_2', outcome: 'started', reason: 'rerun', run_id: 'run_2' }),
  })
  expect(await screen.findByText('it broke')).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Run again from here' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/runs/run_2'))
  expect(server.asked.find(asked => asked.path.endsWith('/rerun'))?.body).toEqual({ from_step: 'tell' })
})

test('a run of another definition than the saved one is run again as a whole', async () => {
  const ended = { ...run, status: 'succeeded', waiting_for: null, invocation_id: null, asked_by: 'user:usr_x' }
  openPage(
    '/runs/run_1',
    answers(() => ended),
  )
  expect(await screen.findByText('Another definition is saved by now: only all of it can be run again.')).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Run again from here' })).toBeNull()
  expect(screen.getByRole('button', { name: 'Run again…' })).toBeTruthy()
  expect(screen.getByText('Asked for by')).toBeTruthy()
})

test('a run is shown as JSON on demand, and its definition is compared with the saved one', async () => {
  const { user } = openPage(
    '/runs/run_1',
    answers(() => run),
  )
  await user.click(await screen.findByRole('button', { name: 'Raw JSON' }))
  expect(screen.getByText(/"firing_id": "fir_1"/)).toBeTruthy()
  await user.click(await screen.findByRole('button', { name: 'Compare with the saved one' }))
  expect(await screen.findByText(/"goal": "New"/)).toBeTruthy()
})

test('what a firing came to instead of a run is said', async () => {
  const ended = { ...run, status: 'succeeded', waiting_for: null, invocation_id: null }
  const { server, user } = openPage('/runs/run_1', {
    ...answers(() => ended),
    'POST /api/v1/runs/run_1/rerun': () => ({ firing_id: 'fir_2', outcome: 'dropped', reason: 'already_running', run_id: null }),
  })
  await user.click(await screen.findByRole('button', { name: 'Run again…' }))
  await user.click(await screen.findByRole('button', { name: 'Run it' }))
  expect(await screen.findByText('Nothing was started: a run had not ended yet.')).toBeTruthy()
  // Inputs that were not changed are not sent: they may be redacted here.
  expect(server.asked.find(asked => asked.path.endsWith('/rerun'))?.body).toEqual({})
})

test('a run is run again with other inputs, and those that nobody touched are not sent', async () => {
  const inputs = { schema: { type: 'object', properties: { greeting: { type: 'string' } } } }
  let ended: object = { ...run, status: 'succeeded', waiting_for: null, invocation_id: null }
  const again = {
    ...answers(() => ended),
    'GET /api/v1/automations/aut_1': () => ({ ...automation, definition: { ...definition, inputs } }),
    'POST /api/v1/runs/run_1/rerun': () => ({ firing_id: 'fir_2', outcome: 'dropped', reason: 'already_running', run_id: null }),
  }
  const { server, user } = openPage('/runs/run_1', again)
  const sent = () => server.asked.filter(asked => asked.path.endsWith('/rerun')).map(asked => asked.body)
  await user.click(await screen.findByRole('button', { name: 'Run again…' }))
  await user.click(await screen.findByRole('button', { name: 'Run it' }))
  await waitFor(() => expect(sent()).toEqual([{}]))
  await waitFor(() => expect(screen.queryByRole('button', { name: 'Run it' })).toBeNull())
  await user.click(screen.getByRole('button', { name: 'Run again…' }))
  await user.type(await screen.findByLabelText(/^greeting/), '!')
  await user.click(screen.getByRole('button', { name: 'Run it' }))
  await waitFor(() => expect(sent()).toEqual([{}, { inputs: { greeting: 'Hello!' } }]))
  // What is left of 9007199254740993 once it is read.
  ended = { ...ended, inputs: { order: 2 ** 53 } }
  server.event('automation.run.succeeded', 'run_1', 5)
  await waitFor(() => expect(screen.queryByRole('button', { name: 'Run it' })).toBeNull())
  await screen.findByText('order')
  await user.click(screen.getByRole('button', { name: 'Run again…' }))
  expect(await screen.findByText(/its last digits may be lost\. So the inputs stay as they are/)).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Run it' }))
  await waitFor(() => expect(sent().at(-1)).toEqual({}))
})

test('a run shows what its trigger was given, and is run again with it', async () => {
  const ended = { ...run, status: 'succeeded', waiting_for: null, invocation_id: null }
  let shown: object = ended
  const { server, user, router } = openPage('/runs/run_1', {
    ...answers(() => shown),
    'POST /api/v1/runs/run_1/rerun': () => ({ firing_id: 'fir_2', outcome: 'started', reason: 'rerun', run_id: 'run_2' }),
  })
  expect(await screen.findByRole('button', { name: 'Run again…' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'With this payload…' })).toBeNull()
  shown = { ...ended, trigger_payload: { issue: { title: 'It is broken' } } }
  server.event('automation.run.succeeded', 'run_1', 5)
  expect(await screen.findByText(/"title": "It is broken"/)).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'With this payload…' }))
  await user.click(await screen.findByRole('button', { name: 'Run it' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/runs/run_2'))
  expect(server.asked.find(asked => asked.path.endsWith('/rerun'))?.body).toEqual({ with_payload: true })
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

test('what a run made is listed with its step, is saved by a link, and not while it is in quarantine', async () => {
  const clicked = vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => {})
  const artifact = {
    id: 'art_1',
    run_id: 'run_1',
    invocation_id: 'inv_look',
    name: 'files\u{202e}.csv',
    media_type: 'text/csv',
    size_bytes: 1_500,
    sha256: 'ab',
    created_at: run.created_at,
  }
  const held = {
    ...artifact,
    id: 'art_2',
    name: 'bad.bin',
    invocation_id: 'inv_other',
    quarantined_at: run.created_at,
    quarantined_by: 'user:usr_x',
  }
  const [look] = run.steps
  const { server, user } = openPage('/runs/run_1?step=look', {
    ...answers(() => ({ ...run, steps: [{ ...look, invocation_id: 'inv_look' }] })),
    'GET /api/v1/artifacts': () => ({ items: [artifact, held], next: null }),
    'POST /api/v1/artifacts/art_1/link': () => ({ path: '/artifacts/art_1?expires=1&signature=x', expires_at: run.created_at }),
  })
  const rail = within(await (await steps()).findByRole('list', { name: 'Artifacts' }))
  const [good, bad] = rail.getAllByRole('listitem')
  expect(good?.textContent).toContain('files\\u{202e}.csv')
  expect(good?.textContent).toContain('1.5 kB · text/csv')
  expect(good?.textContent).toContain('step look')
  expect(bad?.textContent).toContain('in quarantine')
  expect(bad?.textContent).not.toContain('step')
  expect(rail.queryByRole('button', { name: 'Download bad.bin' })).toBeNull()
  // The step shows its own, and no other.
  const panel = within(screen.getByRole('region', { name: 'The selected step' }))
  expect(within(await panel.findByRole('list', { name: 'Artifacts' })).getAllByRole('listitem')).toHaveLength(1)
  await user.click(panel.getByRole('button', { name: /^Download/ }))
  await waitFor(() => expect(clicked).toHaveBeenCalled())
  expect((clicked.mock.contexts[0] as HTMLAnchorElement).getAttribute('href')).toBe('/artifacts/art_1?expires=1&signature=x')
  expect(server.asked.some(asked => asked.path === '/api/v1/artifacts?run=run_1&limit=50')).toBe(true)
  clicked.mockRestore()
})

test('a step shows how its call went, and the calls of its earlier attempts', async () => {
  const failed = { code: 'source_unavailable', message: 'it was away' }
  const mine = { ...held, id: 'inv_1', status: 'failed', error: failed }
  const last = { ...mine, id: 'inv_3', status: 'succeeded', error: null, completed_at: run.created_at }
  const done = { ...run, status: 'succeeded', waiting_for: null, invocation_id: null, step: 2 }
  const { server } = openPage('/runs/run_1?step=tell', {
    ...answers(() => ({
      ...done,
      steps: [...run.steps, { ...run.steps[0], index: 1, step_id: 'tell', action: 'files.write_text', invocation_id: 'inv_3' }],
    })),
    'GET /api/v1/invocations/inv_3': () => ({ invocation: last }),
    'GET /api/v1/invocations/inv_3/entries': () => ({ items: [], next: null }),
    'GET /api/v1/invocations': ({ path }) => ({
      items: path.includes('after=inv_3')
        ? [mine, { ...mine, id: 'inv_2', trace_id: 'run_other' }, { ...mine, id: 'inv_0', reason: 'step `look` of the automation `x`' }]
        : [],
      next: null,
    }),
  })
  const earlier = within(await screen.findByRole('list', { name: 'Earlier attempts' }))
  expect(earlier.getAllByRole('listitem')).toHaveLength(1)
  expect(earlier.getByText('it was away (source_unavailable)')).toBeTruthy()
  expect(earlier.getByRole('link', { name: 'the call' }).getAttribute('href')).toBe('/invocations/inv_1')
  expect(await screen.findByText('decided')).toBeTruthy()
  expect(server.asked.some(asked => asked.path.includes('session=ses_1&action=files.write_text&after=inv_3'))).toBe(true)
})

test('artifacts of everything have a page of their own, on which one is put into quarantine', async () => {
  let artifact: Record<string, unknown> = {
    id: 'art_1',
    run_id: 'run_1',
    name: 'a.csv',
    media_type: 'text/csv',
    size_bytes: 7,
    sha256: 'ab',
    created_at: run.created_at,
  }
  const { user } = openPage('/artifacts', {
    'GET /api/v1/artifacts': () => ({ items: [artifact], next: null }),
    'POST /api/v1/artifacts/art_1/quarantine': () => {
      artifact = { ...artifact, quarantined_at: run.created_at }
      return artifact
    },
  })
  expect((await screen.findByRole('link', { name: 'its run' })).getAttribute('href')).toBe('/runs/run_1')
  await user.click(await screen.findByRole('button', { name: 'Quarantine a.csv' }))
  await user.click(await screen.findByRole('button', { name: 'Take it away for good' }))
  expect(await screen.findByText(/nobody gets its bytes/)).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Download a.csv' })).toBeNull()
})

test('an image is shown small, and what a browser could run is not', async () => {
  const image = { id: 'art_1', name: 'a.png', media_type: 'image/png', size_bytes: 7, sha256: 'ab', created_at: run.created_at }
  const { server } = openPage('/artifacts', {
    'GET /api/v1/artifacts': () => ({ items: [image, { ...image, id: 'art_2', name: 'b.svg', media_type: 'image/svg+xml' }], next: null }),
    'POST /api/v1/artifacts/art_1/link': () => ({ path: '/artifacts/art_1?expires=1&signature=x', expires_at: run.created_at }),
  })
  const shown = await screen.findByRole('img', { name: 'Preview of a.png' })
  expect(shown.getAttribute('src')).toBe('/artifacts/art_1?expires=1&signature=x')
  expect(screen.queryByRole('img', { name: 'Preview of b.svg' })).toBeNull()
  expect(server.asked.filter(asked => asked.method === 'POST')).toHaveLength(1)
})

test('one artifact has an address of its own, with its command', async () => {
  const artifact = { id: 'art_1', name: 'a.csv', media_type: 'text/csv', size_bytes: 7, sha256: 'ab', created_at: run.created_at }
  const { user, router } = openPage('/artifacts?artifact=art_1', {
    'GET /api/v1/artifacts/art_1': () => artifact,
    'GET /api/v1/artifacts': () => ({ items: [artifact, { ...artifact, id: 'art_2', name: 'b.csv' }], next: null }),
  })
  expect(await screen.findByRole('link', { name: 'a.csv' })).toBeTruthy()
  expect(screen.getByText('countersign artifact show art_1')).toBeTruthy()
  await user.click(screen.getByRole('link', { name: 'Show all' }))
  await user.click(await screen.findByRole('link', { name: 'b.csv' }))
  expect(router.state.location.search).toEqual({ artifact: 'art_2' })
})

test('several runs are run again, one by one, and then the list has those that were started', async () => {
  const ended = (id: string) => ({ ...run, id, status: 'failed', waiting_for: null, invocation_id: null })
  const { server, user, router } = openPage('/runs', {
    ...answers(() => run),
    'GET /api/v1/automations': () => ({ items: [automation], next: null }),
    'GET /api/v1/runs': () => ({ items: [ended('run_a'), ended('run_b'), run], next: null }),
    'GET /api/v1/runs/run_new': () => ({ ...run, id: 'run_new' }),
    'POST /api/v1/runs/run_a/rerun': () => ({ firing_id: 'fir_2', outcome: 'started', reason: 'rerun', run_id: 'run_new' }),
    'POST /api/v1/runs/run_b/rerun': () => ({ firing_id: 'fir_3', outcome: 'dropped', reason: 'already_running', run_id: null }),
  })
  for (const id of ['run_a', 'run_b', 'run_1']) await user.click(await screen.findByLabelText(`Choose ${id}`))
  expect(screen.getByText('3 runs chosen')).toBeTruthy()
  // Of a run that has ended there is nothing to cancel.
  expect(screen.getByRole('button', { name: 'Cancel 1…' })).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Run 2 again…' }))
  const dialog = within(await screen.findByRole('dialog'))
  expect(dialog.getAllByRole('listitem')).toHaveLength(2)
  expect(server.asked.some(asked => asked.method === 'POST')).toBe(false)
  await user.click(dialog.getByRole('button', { name: 'Run them' }))
  expect(await screen.findByText('1 run started. 1 not: a run had not ended yet.')).toBeTruthy()
  await waitFor(() => expect(router.state.location.search).toEqual({ only: 'run_new' }))
  expect(await screen.findByLabelText('Choose run_new')).toBeTruthy()
  expect(screen.queryByLabelText('Choose run_a')).toBeNull()
})
