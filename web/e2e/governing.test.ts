// What decides calls, set by a person at the pages: a source by its form, a mode, a grant, a policy.
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { type ApiError, body } from '@/api/client'
import { until } from './program'
import { start } from './server'
import { upstream } from './upstream'
import { visit } from './visit'

/** What the server refuses, the browser tells on its console. */
const REFUSED = /the server responded with a status of 4\d\d/

const field = (page: Page, label: string) => page.getByLabel(label, { exact: true })
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

/** What stands beside a field: its help, the answer of a test, why it was refused. */
const beside = async (page: Page, label: string) => page.locator(`[id="${await field(page, label).getAttribute('aria-describedby')}"]`)

test('a source is added by its form, tried beside its field, edited, and reviewed when it changes', async () => {
  const forge = await upstream()
  const server = await start({ settings: forge.settings })
  const page = await visit(server, { path: '/sources', complains: REFUSED })
  await button(page, 'Add a source').first().click()
  await field(page, 'Address').fill('https://mcp.example.com/mcp')
  await field(page, 'Name').fill('forge')
  await field(page, 'Title').fill('The forge')
  await button(page, 'Add').click()
  await (await beside(page, 'Address')).getByRole('link', { name: 'host_not_allowed' }).waitFor()

  await field(page, 'Address').fill(`${forge.origin}/mcp`)
  await button(page, 'Add').click()
  await page.waitForURL('**/sources/forge')
  await page.getByRole('heading', { name: 'The forge' }).waitFor()
  for (const action of ['forge.merge', 'forge.refund', 'forge.wipe']) await page.getByRole('link', { name: action, exact: true }).waitFor()

  await button(page, 'Edit').click()
  await page.getByRole('heading', { name: 'Edit forge' }).waitFor()
  await button(page, 'Test').click()
  await (await beside(page, 'Address')).getByText(/It answers in .*: 3 actions\./).waitFor()
  await field(page, 'Title').fill('Our forge')
  await button(page, 'Save').click()
  await page.getByRole('heading', { name: 'Our forge' }).waitFor()

  await forge.drift(server)
  await button(page, 'List again').click()
  const changed = page.getByRole('article', { name: 'forge.merge' })
  await changed.getByText(/now takes `bypass_checks`, optional boolean/).waitFor()
  await changed.getByRole('button', { name: 'Accept forge.merge' }).click()
  await page.getByText('1 definition accepted.').waitFor()
  await changed.waitFor({ state: 'detached' })
  // Nothing is believed of its tools: a call asks.
  const agent = await server.agent('Merge the branch')
  expect([(await agent.call('forge.merge', { branch: 'main' })).status, forge.called()]).toEqual(['pending', []])
})

test('a mode is set after its rule was read, a grant is revoked, and a policy is saved once its mistake is mended', async () => {
  const server = await start()
  const agent = await server.agent('Write notes')
  const write = (path: string) => agent.call('files.write_text', { path, text: 'x' })
  const page = await visit(server, { path: '/policies', complains: REFUSED })
  const setMode = async (mode: string) => {
    await page
      .getByRole('list', { name: 'Modes' })
      .getByRole('button', { name: /^files\.write_text/ })
      .click()
    const dialog = page.getByRole('dialog', { name: 'Mode of files.write_text' })
    await dialog.getByRole('radio', { name: mode, exact: true }).check()
    await dialog.getByText(`org: files.write_text → ${mode}`, { exact: true }).waitFor()
    await dialog.getByText(/Of \d+ calls? in the last 7d/).waitFor()
    await dialog.getByRole('button', { name: 'Set', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
  }
  expect((await write('0.txt')).status).toBe('pending')
  await setMode('allow')
  expect([(await write('1.txt')).status, server.file('1.txt')]).toEqual(['succeeded', 'x'])
  await setMode('require_approval')
  expect((await write('2.txt')).status).toBe('pending')

  await body(server.owner.POST('/api/v1/grants', { body: { covers: 'files.write_text', scope: 'org' } }))
  expect((await write('3.txt')).status).toBe('succeeded')
  await page.goto('/policies/grants')
  await button(page, 'Revoke the grant for files.write_text').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click()
  await page.getByText('Revoked: the next call of files.write_text needs approval again.').waitFor()
  expect((await write('4.txt')).status).toBe('pending')

  await page.goto('/policies/cedar?set=abac')
  const editor = field(page, 'Policies of the set abac')
  const mistaken = '@id("abac.no_notes")\n  permitt (principal, action, resource);\n'
  await editor.fill(mistaken)
  const mistake = page.getByRole('button', { name: /^abac 2:3/ })
  await mistake.waitFor()
  await page.getByText('! 2', { exact: true }).waitFor()
  expect(await button(page, 'Review & save…').isDisabled()).toBe(true)
  await mistake.click()
  const cursor = () => editor.evaluate((text: HTMLTextAreaElement) => (document.activeElement === text ? text.selectionStart : undefined))
  await until(async () => (await cursor()) === mistaken.indexOf('permitt'))

  const mended = 'forbid (principal is Countersign::Agent, action == Countersign::Action::"files.write_text", resource);'
  await editor.fill(`@id("abac.no_notes")\n${mended}\n`)
  await page.getByText('✓ 1 policy, all valid').waitFor()
  await button(page, 'Review & save…').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText(/Version \d+ of the rules is in force/).waitFor()
  expect(await write('5.txt').catch((cause: ApiError) => cause.code)).toBe('denied_by_policy')
  expect(server.file('5.txt')).toBeUndefined()
})
