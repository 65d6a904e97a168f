import { join } from 'node:path'
import { expect, test } from 'vitest'
import { program } from './program'
import { BINARY, start } from './server'
import { approvable, card, visit } from './visit'

test('the first visit: the one-time link, an approval by keyboard, and a receipt that the page verifies', async () => {
  const server = await start({ terminal: true })
  const page = await visit(server, { token: null, path: await server.oneTimeLink() })
  await page.getByRole('button', { name: 'Log in here' }).click()
  await page.getByText('Nothing waits for you').waitFor()

  const agent = await server.agent('A first try')
  const call = await agent.call('files.write_text', { path: 'hello.txt', text: 'hello' }, 'to see whether it works')
  // It appears by itself.
  await page.getByRole('list', { name: 'Calls' }).getByText('A first try').waitFor()
  await card(page).getByText('“to see whether it works”').waitFor()
  await approvable(page)
  expect(await page.title()).toBe('(1) Inbox · Countersign')
  await page.keyboard.press('a')
  expect((await agent.ends(call.id)).status).toBe('succeeded')
  expect(server.file('hello.txt')).toBe('hello')

  await card(page)
    .getByRole('link', { name: /^Receipt / })
    .click()
  await page.getByRole('heading', { name: 'files.write_text' }).waitFor()
  const verdict = page.getByRole('status').filter({ hasText: /erified/ })
  await verdict.getByText('Verified', { exact: true }).waitFor()
  // What is downloaded is verified without the page, too.
  const saving = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download proof' }).click()
  const kept = join(server.data, 'kept.proof.json')
  await (await saving).saveAs(kept)
  expect(await program([BINARY, 'receipt', 'verify', kept, '--key', join(server.data, 'receipt.pub')]).exit()).toBe(0)
  await page.getByRole('button', { name: 'Try it with one byte changed' }).click()
  await verdict.getByText(/^Not verified/).waitFor()
})

test('the empty inbox tries the way to itself', async () => {
  const server = await start()
  const page = await visit(server)
  await page.getByRole('button', { name: 'Send a test request' }).click()
  await approvable(page)
  await page.keyboard.press('a')
  await card(page)
    .getByText(/^Approved by owner .*, and it succeeded\.$/)
    .waitFor()
  expect(server.file('test-request.txt')).toBe('A test of the inbox.\n')
  await page.keyboard.press('n')
  await page.getByText(/^The last decision was /).waitFor()
})

test('an action is tried: the dry run changes nothing, and the call of it waits for a person', async () => {
  const server = await start()
  const page = await visit(server, { path: '/actions?action=files.write_text' })
  const action = page.getByRole('region', { name: 'The selected action' })
  await action.getByRole('button', { name: 'Dry run' }).click()
  await action.getByText('Required').first().waitFor()
  await action.getByLabel(/^path/).fill('tried.txt')
  await action.getByLabel(/^text/).fill('by hand')
  await action.getByRole('button', { name: 'Dry run' }).click()
  await action.getByText('+ would create').waitFor()
  expect(server.file('tried.txt')).toBeUndefined()
  await action.getByRole('button', { name: 'Call it' }).click()
  await action.getByText('pending', { exact: true }).waitFor()
  await action.getByRole('link', { name: /^inv_/ }).click()
  await approvable(page)
  await page.keyboard.press('a')
  await card(page)
    .getByText(/^Approved by owner .*, and it succeeded\.$/)
    .waitFor()
  expect(server.file('tried.txt')).toBe('by hand')
})

test('the one-time link opens once', async () => {
  const server = await start({ terminal: true })
  const link = await server.oneTimeLink()
  const first = await visit(server, { token: null, path: link })
  await first.getByRole('button', { name: 'Log in here' }).click()
  await first.getByText('Nothing waits for you').waitFor()
  const second = await visit(server, { token: null, path: link, complains: /status of 4\d\d/ })
  await second.getByRole('button', { name: 'Log in here' }).click()
  await second.getByLabel('Access token').waitFor()
})
