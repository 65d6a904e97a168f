// Automations in the browser: from the gallery to a run that a person approves on its own page.
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ApiError, body } from '@/api/client'
import { actionsOf } from '@/features/automations/model'
import { asGiven, built, STARTERS, sourcesMissing } from '@/features/automations/starters'
import { type Server, start } from './server'
import { visit } from './visit'

/** A plan of a step that reads, and one that asks a person. */
const NOTE = {
  schema_version: '1.0',
  name: 'Morning note',
  plan: [
    { step_id: 'look', action: 'files.list', output_as: 'found' },
    { step_id: 'tell', action: 'notify.send', config: { title: 'Good morning', body: '{{ found.entries | length }} files' } },
  ],
}

async function saved(server: Server, definition: object = NOTE): Promise<string> {
  return (await body(server.owner.POST('/api/v1/automations', { body: { definition } }))).automation?.id ?? ''
}

const steps = (page: Page) => page.getByRole('region', { name: 'Steps' })
const step = (page: Page) => page.getByRole('region', { name: 'The selected step' })
const approve = async (page: Page) => {
  const button = step(page).getByRole('button', { name: /^Approve once/ })
  await button.and(page.locator(':enabled')).waitFor()
  const box = await button.boundingBox()
  expect((box?.y ?? 0) + (box?.height ?? 0), 'the buttons are in sight').toBeLessThanOrEqual(page.viewportSize()?.height ?? 0)
  await button.click()
}

test('every starter whose actions are here is a definition without a mistake', async () => {
  const { owner } = await start()
  const { sources } = await body(owner.GET('/api/v1/actions'))
  const known = sources.flatMap(source => source.actions.map(action => action.id))
  const wrong: unknown[] = []
  const absent = new Set<string>()
  for (const starter of STARTERS) {
    const definition = built(starter, asGiven(starter))
    const without = sourcesMissing(actionsOf(definition), known)
    for (const source of without) absent.add(source)
    if (without.length > 0) continue
    await body(owner.POST('/api/v1/automations/validate', { body: { definition } })).catch((cause: unknown) => {
      wrong.push([starter.id, cause instanceof ApiError ? (cause.problem.mistakes ?? cause.problem.detail) : cause])
    })
  }
  expect(wrong).toEqual([])
  expect([...absent], 'this server sends no mail').toEqual(['email'])
})

test('from the gallery to a saved automation, run now, approved on the page of its run, and told to people', async () => {
  const server = await start()
  const page = await visit(server, { path: '/automations', complains: /status of 422/ })
  await page.getByRole('link', { name: 'Begin with an example' }).click()
  await page.getByRole('link', { name: /^Tell what a webhook says/ }).click()
  await page.getByLabel('Name', { exact: true }).fill('Say it')
  await page.getByRole('button', { name: 'Go on' }).click()
  // What it would do stands beside the form, before anything is saved.
  await page.getByText('1 step will wait for approval.').waitFor()
  await page.getByRole('button', { name: 'Review & save…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('notify.send').first().waitFor()
  await dialog.getByRole('button', { name: 'Save it' }).click()
  // The token of its webhook is shown once.
  await page.getByRole('dialog', { name: 'The token of the webhook hook' }).waitFor()
  await page.getByLabel(/I have kept it/).check()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('heading', { name: 'Say it' }).waitFor()

  await page.getByRole('button', { name: 'Run now…' }).click()
  await dialog.getByRole('button', { name: 'Run it' }).click()
  // The inputs are missing: each says so at its field.
  await dialog.getByRole('alert').first().waitFor()
  await dialog.getByLabel(/^title/).fill('Lunch')
  await dialog.getByLabel(/^text/).fill('is ready')
  await dialog.getByRole('button', { name: 'Run it' }).click()
  await page.waitForURL(/\/runs\/run_/)
  await steps(page).getByText('waiting').waitFor()
  await step(page).getByText('Lunch').first().waitFor()
  await approve(page)
  await steps(page).getByText('succeeded').waitFor()
  // What was approved is counted beside the page of what people were told, and stands there with who told it.
  await page.getByRole('link', { name: /^Notifications\s*1/ }).click()
  const told = page.getByRole('list', { name: 'Notifications' }).getByRole('listitem')
  await told.getByText('Lunch', { exact: true }).waitFor()
  await told.getByText('is ready', { exact: true }).waitFor()
  await told.getByRole('link', { name: 'Say it' }).waitFor()
  await page.getByRole('link', { name: 'Notifications', exact: true }).waitFor()
  await told.getByRole('link', { name: 'This one alone' }).click()
  await page.getByRole('button', { name: 'Show all' }).waitFor()
  await told.getByText('Lunch', { exact: true }).waitFor()
  const [listed] = (await body(server.owner.GET('/api/v1/runs'))).items
  const run = await body(server.owner.GET('/api/v1/runs/{run}', { params: { path: { run: listed?.id ?? '' } } }))
  expect([run.status, run.inputs]).toEqual(['succeeded', { title: 'Lunch', text: 'is ready' }])
  await page.goto(`/runs/${run.id}?step=tell`)
  await step(page)
    .getByRole('link', { name: /^Receipt rcp_/ })
    .waitFor()
})

test('a held step names its automation, run and step in the inbox, and leads to its run', async () => {
  const server = await start()
  const id = await saved(server)
  const page = await visit(server)
  const { run_id: run } = await body(
    server.owner.POST('/api/v1/automations/{automation}/run', { params: { path: { automation: id } }, body: {} }),
  )
  const card = page.getByRole('region', { name: 'The selected call' })
  await card.getByRole('link', { name: 'Morning note' }).waitFor()
  await card.getByText('step tell').waitFor()
  await card.getByRole('link', { name: `run ${run}` }).click()
  await page.waitForURL(new RegExp(`/runs/${run}`))
})

test('a firing that did not run shows why, among the runs', async () => {
  const server = await start()
  const id = await saved(server)
  const run = () => body(server.owner.POST('/api/v1/automations/{automation}/run', { params: { path: { automation: id } }, body: {} }))
  await run()
  const page = await visit(server, { path: `/automations/${id}` })
  await page.getByRole('button', { name: 'Run now…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Run it' }).click()
  await page.getByText('Nothing was started: a run had not ended yet.').waitFor()
  await page.getByRole('button', { name: 'Runs and firings' }).click()
  const all = page.getByRole('list', { name: 'Runs and firings' }).getByRole('listitem')
  await all.getByText('Did not run: a run had not ended yet.').waitFor()
  expect(await all.count()).toBe(2)
})

test('a run is run again from a step: what came before is taken over', async () => {
  const server = await start()
  const id = await saved(server)
  const { run_id: run } = await body(
    server.owner.POST('/api/v1/automations/{automation}/run', { params: { path: { automation: id } }, body: {} }),
  )
  const page = await visit(server, { path: `/runs/${run}` })
  await approve(page)
  await steps(page)
    .getByRole('button', { name: /^tell\s*succeeded/ })
    .click()
  await step(page).getByRole('button', { name: 'Run again from here' }).click()
  await page.waitForURL(url => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(run ?? ''))
  await steps(page).getByText('taken over').waitFor()
  await approve(page)
  await steps(page)
    .getByRole('button', { name: /^tell\s*succeeded/ })
    .waitFor()
})

test('what somebody saved meanwhile is not overwritten unseen', async () => {
  const server = await start()
  const id = await saved(server)
  const page = await visit(server, { path: `/automations/${id}/edit`, complains: /status of 412/ })
  await page.getByLabel(/^goal/).fill('Mine')
  const other = { ...NOTE, goal: 'Theirs' }
  await body(server.owner.PUT('/api/v1/automations/{automation}', { params: { path: { automation: id } }, body: { definition: other } }))
  await page.getByRole('button', { name: 'Review & save…' }).click()
  await page.getByRole('button', { name: 'Save as a new version' }).click()
  await page.getByText('Version 2 was saved meanwhile.').waitFor()
  await page.getByText('-  "goal": "Theirs",').waitFor()
  await page.getByText('+  "goal": "Mine",').waitFor()
  await page.getByRole('button', { name: 'Review & save…' }).click()
  await page.getByRole('button', { name: 'Save as a new version' }).click()
  await page.waitForURL(new RegExp(`/automations/${id}$`))
  const now = await body(server.owner.GET('/api/v1/automations/{automation}', { params: { path: { automation: id } } }))
  expect([now.version, (now.definition as { goal: string }).goal]).toEqual([3, 'Mine'])
})

test('the editor offers what a template may use, and tries a filter on the latest events', async () => {
  const server = await start()
  for (const [id, size] of [
    ['small.txt', 3],
    ['large.txt', 9],
  ] as const) {
    const event = { specversion: '1.0', id, source: '/drive', type: 'drive.file_added', subject: id, spaceid: 'main', data: { size } }
    await body(server.owner.POST('/api/v1/events', { body: event }))
  }
  const triggers = [{ trigger_id: 'added', type: 'event', config: { event_type: 'drive.file_added' } }]
  const id = await saved(server, { ...NOTE, triggers })
  // A template that is half written has mistakes.
  const page = await visit(server, { path: `/automations/${id}/edit`, complains: /status of 422/ })
  const trigger = page.getByRole('region', { name: 'Trigger added' })
  await trigger.getByLabel(/^filters/).fill('{"data.size": {"gt": 5}}')
  await trigger.getByRole('button', { name: 'Try it on the latest events' }).click()
  await trigger.getByText('It accepts 1 of the latest 2 events.').waitFor()
  const events = trigger.getByRole('list', { name: 'The latest events' }).getByRole('listitem')
  await events.filter({ hasText: 'large.txt' }).getByText('accepted').waitFor()
  await events.filter({ hasText: 'small.txt' }).getByText('does not satisfy data.size').waitFor()
  // What is chosen stands at the cursor, and typing goes on behind it.
  const text = page.locator('#plan-1-config_title')
  const offered = page.getByRole('listbox', { name: 'What a template may use' })
  await text.fill('')
  await text.pressSequentially('{{ fo')
  await offered.getByText('found').waitFor()
  await text.press('Enter')
  await text.pressSequentially(' | le')
  await offered.getByText('length', { exact: true }).waitFor()
  await text.press('Enter')
  await text.pressSequentially(' }} files')
  expect(await text.inputValue()).toBe('{{ found | length }} files')
})

test('a webhook gets a new token, and its old one ends', async () => {
  const server = await start()
  const definition = { ...NOTE, plan: NOTE.plan.slice(0, 1), triggers: [{ trigger_id: 'hook', type: 'webhook' }] }
  const made = await body(server.owner.POST('/api/v1/automations', { body: { definition } }))
  const [hook] = made.tokens
  const fire = async (token: string | null | undefined) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    return (await fetch(hook?.fire_url ?? '', { method: 'POST', headers, body: '{}' })).status
  }
  const page = await visit(server, { path: `/automations/${made.automation?.id}` })
  await page.getByRole('button', { name: 'New token for hook' }).click()
  await page.getByLabel(/Take the old one/).uncheck()
  await page.getByRole('button', { name: 'Make it' }).click()
  const token = await page
    .getByRole('dialog', { name: 'The new token of hook' })
    .getByText(/^cs_hook_/)
    .textContent()
  await page.getByLabel(/I have kept it/).check()
  await page.getByRole('button', { name: 'Done' }).click()
  expect([await fire(hook?.token), await fire(token)]).toEqual([401, 202])
})

test('an imported definition is a draft until all that is worth checking is ticked off', async () => {
  const server = await start()
  const page = await visit(server, { path: '/automations' })
  await page.getByRole('button', { name: 'Import…' }).click()
  await page.getByLabel('Or its text').fill(JSON.stringify(NOTE))
  await page.getByRole('button', { name: 'Read it' }).click()
  await page.waitForURL(/\/automations\/drafts\/drf_/)
  const template = page.getByLabel('I have read /plan/1/config/body')
  await template.waitFor()
  const save = page.getByRole('button', { name: 'Save it' })
  for (const box of await page.getByLabel(/^I have read/).all()) await box.check()
  await template.uncheck()
  expect(await save.isDisabled()).toBe(true)
  expect((await body(server.owner.GET('/api/v1/automations'))).items).toEqual([])
  await template.check()
  await save.click()
  await page.waitForURL(/\/automations\/aut_[^/]+$/)
  expect((await body(server.owner.GET('/api/v1/automations'))).items.map(each => each.name)).toEqual(['Morning note'])
  expect((await body(server.owner.GET('/api/v1/automation-drafts'))).items).toEqual([])
})

test('an imported definition that is changed first is read all the same, and its draft is gone once it is saved', async () => {
  const server = await start()
  const draft = await body(server.owner.POST('/api/v1/automations/import', { body: { definition: NOTE } }))
  const page = await visit(server, { path: `/automations/drafts/${draft.id}` })
  await page.getByRole('button', { name: 'Change it first' }).click()
  await page.getByLabel(/^goal/).fill('Mine now.')
  await page.getByRole('button', { name: 'Review & save…' }).and(page.locator(':enabled')).click()
  const dialog = page.getByRole('dialog')
  const save = dialog.getByRole('button', { name: 'Save it' })
  expect(await save.isDisabled()).toBe(true)
  for (const box of await dialog.getByLabel(/^I have read/).all()) await box.check()
  await save.click()
  await page.waitForURL(/\/automations\/aut_[^/]+$/)
  expect((await body(server.owner.GET('/api/v1/automations'))).items).toHaveLength(1)
  expect((await body(server.owner.GET('/api/v1/automation-drafts'))).items).toEqual([])
})

test('a run is run again with other inputs', async () => {
  const server = await start()
  const inputs = { schema: { type: 'object', additionalProperties: false, properties: { greeting: { type: 'string' } } } }
  const id = await saved(server, { ...NOTE, inputs, plan: NOTE.plan.slice(0, 1) })
  const { run_id: run } = await body(
    server.owner.POST('/api/v1/automations/{automation}/run', {
      params: { path: { automation: id } },
      body: { inputs: { greeting: 'Good morning' } },
    }),
  )
  const page = await visit(server, { path: `/runs/${run}` })
  await page.getByRole('button', { name: 'Run again…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel(/^greeting/).fill('Good evening')
  await dialog.getByRole('button', { name: 'Run it' }).click()
  await page.waitForURL(url => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(run ?? ''))
  await steps(page).getByText('Good evening').waitFor()
  const again = new URL(page.url()).pathname.split('/').at(-1) ?? ''
  const made = await body(server.owner.GET('/api/v1/runs/{run}', { params: { path: { run: again } } }))
  expect([made.rerun_of, made.inputs]).toEqual([run, { greeting: 'Good evening' }])
})

test('a definition is edited as text, its schedule says when it fires, and several of its runs are run again', async () => {
  const server = await start()
  const triggers = [
    { trigger_id: 'hourly', type: 'schedule', config: { cron: '0 * * * *', timezone: 'Africa/Kigali' } },
    { trigger_id: 'hook', type: 'webhook' },
  ]
  const id = await saved(server, { ...NOTE, triggers, plan: NOTE.plan.slice(0, 1) })
  const page = await visit(server, { path: `/automations/${id}/edit`, complains: /status of 422/ })
  const schedule = page.getByRole('region', { name: 'Trigger hourly' })
  await schedule.getByLabel(/^cron/).fill('30 9 * * 1-5')
  await schedule.getByText('at 09:30 on weekdays').waitFor()
  const next = schedule.getByRole('list', { name: 'The next firings' }).getByRole('listitem')
  await next.filter({ hasText: '09:30' }).nth(2).waitFor()
  expect(await next.count()).toBe(3)

  await page.getByRole('button', { name: 'JSON', exact: true }).click()
  const text = page.getByLabel('Definition')
  const written = await text.inputValue()
  expect(written).toContain('"cron": "30 9 * * 1-5"')
  await text.fill(written.replace('"files.list"', '"files.lst"'))
  await page
    .getByText(/files\.lst/)
    .first()
    .waitFor()
  await text.fill(written.replace('"Morning note"', '"Evening note"'))
  await page.getByRole('button', { name: 'Diff', exact: true }).click()
  await page.getByText('+  "name": "Evening note",').waitFor()
  await page.getByRole('button', { name: 'Review & save…' }).click()
  await page.getByRole('button', { name: 'Save as a new version' }).click()
  await page.getByRole('heading', { name: 'Evening note' }).waitFor()
  await page.getByText(new RegExp(`^curl .*/automations/${id}/fire`)).waitFor()

  for (const _ of [1, 2]) {
    const params = { path: { automation: id } }
    const { run_id: run } = await body(server.owner.POST('/api/v1/automations/{automation}/run', { params, body: {} }))
    await body(server.owner.GET('/api/v1/runs/{run}', { params: { path: { run: run ?? '' }, query: { wait: '10s' } } }))
  }
  await page.goto('/runs')
  const chosen = page.getByLabel(/^Choose run_/)
  await chosen.nth(1).waitFor()
  for (const at of [0, 1]) await chosen.nth(at).check()
  await page.getByRole('button', { name: 'Run 2 again…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Run them' }).click()
  await page.getByText(/^\d runs? started\./).waitFor()
  const runs = (await body(server.owner.GET('/api/v1/runs'))).items
  expect(runs.filter(run => run.rerun_of).length).toBeGreaterThan(0)
})

test('its trigger is disabled and enabled, and the automation paused, resumed and archived for good', async () => {
  const server = await start()
  const triggers = [{ trigger_id: 'hourly', type: 'schedule', config: { cron: '0 * * * *', timezone: 'Africa/Kigali' } }]
  const id = await saved(server, { ...NOTE, triggers })
  const now = () => body(server.owner.GET('/api/v1/automations/{automation}', { params: { path: { automation: id } } }))
  const page = await visit(server, { path: `/automations/${id}` })
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
  await press('Disable hourly')
  await page.getByText('◌ disabled').waitFor()
  expect((await now()).triggers.map(trigger => trigger.enabled)).toEqual([false])
  await press('Enable hourly')
  await page.getByText('◌ disabled').waitFor({ state: 'detached' })
  expect((await now()).triggers.map(trigger => trigger.enabled)).toEqual([true])

  await press('Pause')
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
  expect((await now()).status).toBe('paused')
  await press('Resume')
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor()
  expect((await now()).status).toBe('active')
  await press('Archive…')
  await press('Archive it for good')
  await page.getByRole('button', { name: 'Run now…' }).waitFor({ state: 'detached' })
  expect((await now()).status).toBe('archived')
})

test('what a step read is too long for its run: it is downloaded, then taken into quarantine, and the run is cancelled', async () => {
  const server = await start()
  const agent = await server.agent('writes')
  const { id: held } = await agent.call('files.write_text', { path: 'long.txt', text: 'long '.repeat(20_000) })
  await body(server.owner.POST('/api/v1/invocations/{invocation}/approve', { params: { path: { invocation: held } }, body: {} }))
  await agent.ends(held)
  const look = { step_id: 'look', action: 'files.read_text', config: { path: 'long.txt' }, output_as: 'read' }
  const tell = { step_id: 'tell', action: 'notify.send', config: { title: 'Read', body: '{{ read.text | length }}' } }
  const id = await saved(server, { ...NOTE, plan: [look, tell] })
  const params = { path: { automation: id } }
  const { run_id: run } = await body(server.owner.POST('/api/v1/automations/{automation}/run', { params, body: {} }))
  const page = await visit(server, { path: `/runs/${run}` })
  await steps(page).getByText('waiting').waitFor()
  const made = page.getByRole('list', { name: 'Artifacts' }).getByRole('listitem')
  const [download] = await Promise.all([page.waitForEvent('download'), made.getByRole('button', { name: 'Download look.json' }).click()])
  const bytes = async () => {
    const answer = await page.request.get(download.url())
    return [answer.status(), (await answer.text()).includes('long long long')]
  }
  expect([download.suggestedFilename(), ...(await bytes())]).toEqual(['look.json', 200, true])
  await made.getByRole('button', { name: 'Quarantine look.json' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Take it away for good' }).click()
  await made.getByText(/in quarantine since/).waitFor()
  expect(await bytes()).toEqual([409, false])

  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await page.getByText(/^It was cancelled\./).waitFor()
  await page.getByRole('link', { name: 'Inbox', exact: true }).waitFor()
  const ended = await body(server.owner.GET('/api/v1/runs/{run}', { params: { path: { run: run ?? '' } } }))
  expect([ended.status, ended.steps?.map(each => each.status)]).toEqual(['cancelled', ['succeeded']])
})
