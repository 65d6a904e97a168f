import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'
import { Refused } from '@/test/server'
import { keep } from './working'

const definition = {
  schema_version: '1.0',
  name: 'Morning note',
  goal: 'Say how many files there are.',
  triggers: [{ trigger_id: 'hook', type: 'webhook', config: {} }],
  plan: [{ step_id: 'write', action: 'files.write_text', config: { path: 'a.md', text: '{{ run.id }}' } }],
}
const automation = {
  id: 'aut_1',
  space_id: 'spc_1',
  name: 'Morning note',
  status: 'active',
  version: 1,
  digest: 'a'.repeat(64),
  created_by: 'user:usr_x',
  created_at: '2026-11-18T09:00:00Z',
  changed_at: '2026-11-18T09:00:00Z',
  next_due_at: null,
  last_run: null,
  triggers: [
    {
      id: 'hook',
      automation_id: 'aut_1',
      type: 'webhook',
      enabled: true,
      enabled_at: '2026-11-18T09:00:00Z',
      fire_url: 'http://x/fire',
      has_token: true,
    },
  ],
  definition,
}
const schema = {
  properties: {
    name: { type: 'string' },
    goal: { type: 'string', 'x-countersign-widget': 'textarea' },
    inputs: { type: 'object', properties: { schema: { type: 'object' } } },
    execution: { type: 'object', properties: {} },
    metadata: { type: 'object', properties: { tags: { type: 'array', items: { type: 'string' } } } },
  },
  $defs: {
    schedule: {
      type: 'object',
      properties: { cron: { type: 'string', 'x-countersign-widget': 'cron' }, timezone: { type: 'string' } },
    },
    step: {
      type: 'object',
      properties: {
        step_id: { type: 'string' },
        action: { type: 'string' },
        when: { type: 'string' },
        config: { type: 'object' },
        output_as: { type: 'string' },
        max_retries: { type: 'integer' },
      },
    },
    webhook: { type: 'object', properties: { signature: { enum: ['none', 'standard_webhooks'] } } },
  },
}
const plan = {
  digest: 'b'.repeat(64),
  steps: [
    {
      phase: 'plan',
      step_id: 'write',
      action: 'files.write_text',
      title: 'Write',
      tier: 'R2',
      mode: 'require_approval',
      mode_source: 'org_default',
      tightened: [],
      when: true,
      params: { path: 'note.txt' },
      needs: [],
    },
  ],
  schedules: [{ trigger_id: 'weekdays', schedule: 'at 09:00 on weekdays', timezone: 'Africa/Kigali', next: ['2026-11-18T07:00:00Z'] }],
  warnings: [],
  flags: [{ pointer: '/execution/on_failure', code: 'no_on_failure', message: 'nobody is told when it fails' }],
}
const none = () => ({ items: [], next: null })
const answers = {
  'GET /api/v1/schemas/automation': () => schema,
  'GET /api/v1/event-types': none,
  'GET /api/v1/automations': () => ({ items: [automation], next: null }),
  'GET /api/v1/automation-drafts': none,
  'GET /api/v1/runs': none,
  'GET /api/v1/automations/aut_1': () => automation,
  'GET /api/v1/automations/aut_1/plan': () => plan,
  'POST /api/v1/automations/dry-run': () => plan,
  'POST /api/v1/automations/aut_1/diff': () => ({ version: 1, changes: [{ pointer: '/goal', before: 'a', after: 'b' }] }),
}
const invoker = { org_id: 'org_x', principal: 'user:usr_x', name: 'ada', role: 'member', permissions: ['read', 'invoke', 'approve'] }
const withInvoke = { ...answers, 'GET /api/v1/whoami': () => invoker }

test('the list says what starts each, and an empty one leads to the gallery', async () => {
  const { router, user } = openPage('/automations', { ...withInvoke, 'GET /api/v1/automations': none })
  await user.click(await screen.findByRole('link', { name: 'Begin with an example' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/automations/gallery'))
  expect(within(await screen.findByRole('list', { name: 'To begin with' })).getAllByRole('listitem')).toHaveLength(16)
  // Only `files.write_text` is there in this server.
  expect(screen.getAllByText(/^Needs the source .*documents.*, which is not here\.$/).length).toBeGreaterThan(0)
})

test('the plan says which steps would run, with which params, and what is not known yet', async () => {
  const [write] = plan.steps
  const steps = [
    write,
    { ...write, step_id: 'tell', when: null, params: null, needs: ['found', 'inputs'] },
    { ...write, step_id: 'clean', when: false, params: null },
    { ...write, step_id: 'sum', params: null, error: { code: 'template_undefined', message: 'there is no `total`' } },
  ]
  const { server, user } = openPage('/automations/aut_1', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1/plan': () => ({ ...plan, steps, run_id: 'run_7' }),
  })
  await user.click(await screen.findByText('With these params'))
  expect(screen.getByText('note.txt')).toBeTruthy()
  expect(screen.getByText('It runs if its condition holds.')).toBeTruthy()
  expect(screen.getByText('Not known yet: found, inputs')).toBeTruthy()
  expect(screen.getByText('It is skipped: its condition does not hold.')).toBeTruthy()
  expect(screen.getByText('there is no `total` (template_undefined)')).toBeTruthy()
  expect(screen.getByRole('link', { name: 'an earlier run' }).getAttribute('href')).toBe('/runs/run_7')
  expect(server.asked.every(asked => asked.path !== '/api/v1/automations/dry-run')).toBe(true)
})

test('an edited definition is tried as the next version of its automation', async () => {
  const { server } = openPage('/automations/aut_1/edit', withInvoke)
  expect(await screen.findByText('With these params')).toBeTruthy()
  const asked = server.asked.find(each => each.path === '/api/v1/automations/dry-run')
  expect(asked?.body).toMatchObject({ automation: 'aut_1', definition: { name: definition.name } })
})

const listening = {
  ...automation,
  triggers: [{ id: 'added', automation_id: 'aut_1', type: 'event', enabled: true, enabled_at: '2026-11-18T09:00:00Z', has_token: false }],
  definition: {
    ...definition,
    triggers: [{ trigger_id: 'added', type: 'event', config: { event_type: 'drive.file_added', filters: { 'data.size': { $gt: 5 } } } }],
  },
}
const tested = (id: string, more: object) => ({
  cursor: id,
  id,
  type: 'drive.file_added',
  subject: id,
  time: '2026-11-18T09:00:00Z',
  ...more,
})

test('the filter of a trigger is tried on the latest events, and says what each does not satisfy', async () => {
  const { server, user } = openPage('/automations/aut_1', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => listening,
    'POST /api/v1/filters/test': () => ({
      matching: 1,
      events: [tested('evt_2', { matches: true, unmet: [] }), tested('evt_1', { matches: false, unmet: ['data.size'] })],
    }),
  })
  await user.click(await screen.findByRole('button', { name: 'Try it on the latest events' }))
  expect(await screen.findByText('It accepts 1 of the latest 2 events.')).toBeTruthy()
  const [first, second] = within(screen.getByRole('list', { name: 'The latest events' })).getAllByRole('listitem')
  expect(first?.textContent).toContain('accepted')
  expect(second?.textContent).toContain('does not satisfy data.size')
  expect(server.asked.find(asked => asked.path === '/api/v1/filters/test')?.body).toEqual({
    event_type: 'drive.file_added',
    filters: { 'data.size': { $gt: 5 } },
    space: 'spc_1',
  })
})

test('a filter that is none says what is wrong with it, while it is written', async () => {
  const { user } = openPage('/automations/aut_1/edit', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => listening,
    'POST /api/v1/filters/test': () =>
      new Refused(422, {
        code: 'definition_invalid',
        title: 'Invalid',
        detail: 'it has mistakes',
        type: '',
        status: 422,
        mistakes: [{ pointer: '/filters/data.size/$gt', code: 'bad_operand', message: 'it compares with a number' }],
      }),
  })
  await user.click(await screen.findByRole('button', { name: 'Try it on the latest events' }))
  expect(await screen.findByText(/it compares with a number/)).toBeTruthy()
  expect(screen.getByText(/It touches the source/).textContent).toBe('It touches the source files.')
})

test('what was filled in stands in the editor, with what it would do', async () => {
  const { server, user, router } = openPage('/automations/gallery?starter=hook-to-file', withInvoke)
  const folder = await screen.findByLabelText('Folder')
  await user.clear(folder)
  await user.type(folder, 'inbox')
  await user.click(screen.getByRole('button', { name: 'Go on' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/automations/new'))
  expect(await screen.findByText('1 step will wait for approval.')).toBeTruthy()
  expect(screen.getByText('at 09:00 on weekdays')).toBeTruthy()
  const asked = server.asked.find(each => each.path === '/api/v1/automations/dry-run')
  expect(JSON.stringify(asked?.body)).toContain('inbox/{{ run.id }}.md')
})

test('mistakes of the server stand at their fields', async () => {
  const mistakes = [{ pointer: '/plan/0/config/path', code: 'config_invalid', message: 'it is too long', hint: 'a shorter one' }]
  openPage('/automations/aut_1/edit', {
    ...withInvoke,
    'POST /api/v1/automations/dry-run': () =>
      new Refused(422, { code: 'definition_invalid', title: '', detail: 'x', type: '', status: 422, mistakes }),
  })
  const card = await screen.findByRole('region', { name: 'Step write' })
  expect(await within(card).findByText('it is too long: a shorter one')).toBeTruthy()
  expect((screen.getByRole('button', { name: 'Review & save…' }) as HTMLButtonElement).disabled).toBe(true)
})

test('what somebody saved meanwhile is shown before it is replaced', async () => {
  keep('aut_1', { definition: { ...definition, goal: 'Mine' } })
  let latest = automation
  const { server, user } = openPage('/automations/aut_1/edit', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => latest,
    'PUT /api/v1/automations/aut_1': ({ headers }) =>
      headers.get('if-match') === `"${latest.digest}"`
        ? { automation: latest, is_new_version: true, tokens: [], warnings: [] }
        : new Refused(412, { code: 'automation_changed', title: '', detail: 'x', type: '', status: 412 }),
  })
  const review = () => screen.findByRole('button', { name: 'Review & save…' })
  await waitFor(async () => expect(((await review()) as HTMLButtonElement).disabled).toBe(false))
  latest = { ...automation, version: 2, digest: 'c'.repeat(64), definition: { ...definition, goal: 'Theirs' } }
  await user.click(await review())
  await user.click(await screen.findByRole('button', { name: 'Save as a new version' }))
  expect(await screen.findByText(/^Version 2 was saved meanwhile/)).toBeTruthy()
  expect(await screen.findByText('- "goal": "Theirs",', { normalizer: text => text.replace(/\s+/g, ' ').trim() })).toBeTruthy()
  expect(server.asked.filter(asked => asked.method === 'PUT')).toHaveLength(1)
  await user.click(await review())
  await user.click(await screen.findByRole('button', { name: 'Save as a new version' }))
  await waitFor(() => expect(server.asked.filter(asked => asked.method === 'PUT')).toHaveLength(2))
})

test('what was begun before another version was saved says so', async () => {
  keep('aut_1', { definition: { ...definition, goal: 'Mine' }, base: 'd'.repeat(64) })
  const { user, router } = openPage('/automations/aut_1/edit', withInvoke)
  expect(await screen.findByText(/^Version 1 was saved meanwhile/)).toBeTruthy()
  await user.click(screen.getByRole('button', { name: 'Throw away' }))
  await waitFor(() => expect(router.state.location.pathname).toBe('/automations/aut_1'))
  await user.click(await screen.findByRole('button', { name: 'Undo' }))
  expect(((await screen.findByLabelText(/^goal/)) as HTMLTextAreaElement).value).toBe('Mine')
})

test('the form and the text are one document', async () => {
  const { user, router } = openPage('/automations/aut_1/edit', withInvoke)
  const goal = await screen.findByLabelText(/^goal/)
  await user.clear(goal)
  await user.type(goal, 'Another')
  await user.click(screen.getByRole('button', { name: 'JSON' }))
  await waitFor(() => expect(router.state.location.search).toEqual({ view: 'json' }))
  expect((screen.getByLabelText('Definition') as HTMLTextAreaElement).value).toContain('"goal": "Another"')
})

test('a schedule says at its field what it means, and when it fires next', async () => {
  const weekdays = { trigger_id: 'weekdays', type: 'schedule', config: { cron: '0 9 * * 1-5', timezone: 'Africa/Kigali' } }
  openPage('/automations/aut_1/edit', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => ({ ...automation, definition: { ...definition, triggers: [weekdays] } }),
  })
  const card = within(await screen.findByRole('region', { name: 'Trigger weekdays' }))
  expect(await card.findByText('at 09:00 on weekdays')).toBeTruthy()
  const next = await card.findByRole('list', { name: 'The next firings' })
  expect(within(next).getByText(/09:00/).getAttribute('datetime')).toBe('2026-11-18T07:00:00Z')
})

test('metadata has a form, and a text in it that cannot be read is not saved over', async () => {
  const { server, user } = openPage('/automations/aut_1/edit', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => ({ ...automation, definition: { ...definition, metadata: { tags: ['a'], owner: 'ada' } } }),
  })
  const more = (await screen.findByLabelText(/^more/)) as HTMLTextAreaElement
  expect(JSON.parse(more.value)).toEqual({ owner: 'ada' })
  await user.clear(more)
  await user.type(more, '{{"owner": "bo"')
  expect(await screen.findByText(/^A field cannot be read yet/)).toBeTruthy()
  const review = screen.getByRole('button', { name: 'Review & save…' }) as HTMLButtonElement
  expect(review.disabled).toBe(true)
  await user.type(more, '}')
  await waitFor(() => expect(review.disabled).toBe(false))
  expect(screen.queryByText(/^A field cannot be read yet/)).toBeNull()
  const asked = server.asked.findLast(each => each.path === '/api/v1/automations/dry-run')
  expect(asked?.body).toMatchObject({ definition: { metadata: { tags: ['a'], owner: 'bo' } } })
})

test('a definition whose digits a browser cannot keep is not edited here', async () => {
  // What is left of 9007199254740993 once it is read.
  const config = { event_type: 'drive.file_added', filters: { 'data.id': 2 ** 53 } }
  openPage('/automations/aut_1/edit', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => ({
      ...automation,
      definition: { ...definition, triggers: [{ trigger_id: 'added', type: 'event', config }] },
    }),
  })
  expect(await screen.findByText(/^A browser keeps whole numbers up to/)).toBeTruthy()
  expect(screen.getByText('countersign automation edit aut_1')).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Review & save…' })).toBeNull()
})

test('a name is put where the cursor is', async () => {
  const { user } = openPage('/automations/aut_1/edit', withInvoke)
  const card = await screen.findByRole('region', { name: 'Step write' })
  const path = (await within(card).findByLabelText(/^path/)) as HTMLInputElement
  await user.click(path)
  await user.click(within(card).getByText('Templates: names and filters'))
  await user.click(within(card).getByRole('button', { name: 'run.id' }))
  await waitFor(() => expect(path.value).toContain('{{ run.id }}'))
})

test('a new token is shown once', async () => {
  const { user } = openPage('/automations/aut_1', {
    ...withInvoke,
    'POST /api/v1/automations/aut_1/triggers/hook/rotate-token': () => ({
      trigger_id: 'hook',
      token: 'cs_hook_new',
      fire_url: 'http://x/fire',
    }),
  })
  await user.click(await screen.findByRole('button', { name: 'New token for hook' }))
  await user.click(screen.getByRole('button', { name: 'Make it' }))
  expect(await screen.findByText('cs_hook_new')).toBeTruthy()
})

test('whoever may not change an automation reads it', async () => {
  openPage('/automations/aut_1', answers)
  expect(await screen.findByRole('heading', { name: 'hook' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: /Run now|Disable|New token/ })).toBeNull()
})

test('a firing that did not run says why', async () => {
  const firing = {
    id: 'fir_1',
    automation_id: 'aut_1',
    trigger_id: 'hook',
    outcome: 'refused',
    reason: 'inputs_invalid',
    detail: '`since` is missing',
    run_id: null,
    at: '2026-11-18T09:00:00Z',
    count: 1,
    first_at: '2026-11-18T09:00:00Z',
    last_at: '2026-11-18T09:00:00Z',
  }
  openPage('/automations/aut_1?tab=history', {
    ...answers,
    'GET /api/v1/automations/aut_1/firings': () => ({ items: [firing], next: null }),
  })
  expect(await screen.findByText('Did not run: its inputs do not fit.')).toBeTruthy()
  expect(screen.getByText('`since` is missing')).toBeTruthy()
})

test('a draft is saved only by whoever has read what is worth checking', async () => {
  const draft = {
    id: 'drf_1',
    space_id: 'spc_1',
    name: 'Theirs',
    automation_id: null,
    definition,
    made_by: 'agent:ses_1',
    created_at: '2026-11-18T09:00:00Z',
    expires_at: '2026-11-19T09:00:00Z',
    flags: plan.flags,
  }
  const { server, user, router } = openPage('/automations/drafts/drf_1', {
    ...withInvoke,
    'GET /api/v1/automation-drafts/drf_1': () => draft,
    'POST /api/v1/automation-drafts/drf_1/save': () => ({ automation, is_new_version: true, tokens: [], warnings: [] }),
  })
  const save = (await screen.findByRole('button', { name: 'Save it' })) as HTMLButtonElement
  expect(save.disabled).toBe(true)
  for (const box of screen.getAllByLabelText(/I have read/)) await user.click(box)
  await user.click(save)
  await waitFor(() => expect(router.state.location.pathname).toBe('/automations/aut_1'))
  expect(server.asked.find(asked => asked.path.endsWith('/save'))?.body).toEqual({
    accept: [...new Set(plan.flags.map(flag => flag.pointer))],
    signing_secrets: {},
  })
})

test('a draft that is changed first still is read, and is dropped once it is saved', async () => {
  const template = { pointer: '/plan/0/config/text', code: 'template_unread', message: 'somebody else wrote `{{ x }}`' }
  const draft = {
    id: 'drf_1',
    space_id: 'spc_1',
    name: 'Theirs',
    automation_id: 'aut_1',
    definition: {
      ...definition,
      goal: 'Another one.',
      plan: [{ step_id: 'write', action: 'files.write_text', config: { text: '{{ x }}' } }],
    },
    made_by: 'agent:ses_1',
    created_at: '2026-11-18T09:00:00Z',
    expires_at: '2026-11-19T09:00:00Z',
    flags: [template],
  }
  const { server, user } = openPage('/automations/drafts/drf_1', {
    ...withInvoke,
    'GET /api/v1/automation-drafts/drf_1': () => draft,
    'DELETE /api/v1/automation-drafts/drf_1': () => ({}),
    'PUT /api/v1/automations/aut_1': () => ({ automation, is_new_version: true, tokens: [], warnings: [] }),
  })
  await user.click(await screen.findByRole('button', { name: 'Change it first' }))
  const review = await screen.findByRole('button', { name: 'Review & save…' })
  await waitFor(() => expect((review as HTMLButtonElement).disabled).toBe(false))
  await user.click(review)
  const dialog = await screen.findByRole('dialog')
  const save = within(dialog).getByRole('button', { name: 'Save as a new version' }) as HTMLButtonElement
  expect(save.disabled).toBe(true)
  await user.click(within(dialog).getByLabelText('I have read /plan/0/config/text'))
  await user.click(save)
  await waitFor(() => expect(server.asked.map(asked => asked.method)).toContain('DELETE'))
  expect(server.asked.map(asked => asked.method).filter(method => method === 'PUT' || method === 'DELETE')).toEqual(['PUT', 'DELETE'])
})

test('a schedule is enabled from now on, or with what it missed', async () => {
  const trigger = { ...automation.triggers[0], id: 'weekdays', type: 'schedule', enabled: false }
  const { server, user } = openPage('/automations/aut_1', {
    ...withInvoke,
    'GET /api/v1/automations/aut_1': () => ({ ...automation, triggers: [trigger] }),
    'POST /api/v1/automations/aut_1/triggers/weekdays/enable': () => trigger,
  })
  const sent = () => server.asked.filter(asked => asked.path.endsWith('/enable')).map(asked => asked.body)
  await user.click(await screen.findByRole('button', { name: 'Enable weekdays, and catch up' }))
  await waitFor(() => expect(sent()).toEqual([{ catch_up: true }]))
  await user.click(screen.getByRole('button', { name: 'Enable weekdays' }))
  await waitFor(() => expect(sent()).toEqual([{ catch_up: true }, { catch_up: false }]))
})
