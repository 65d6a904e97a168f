// The first visit offers a story. Whoever follows it decides every call of it by keyboard.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { asGiven, built, STARTERS } from '@/features/automations/starters'
import { program } from './program'
import { BINARY, ONE_TIME_LINK, start } from './server'
import { approvable, card, loggedIn, visit } from './visit'

test('the first visit offers the demo, which is played by keyboard and whose receipt the page verifies', { timeout: 150_000 }, async () => {
  const server = await start()
  const first = await visit(server)
  const offered = (await first.getByTitle('Copy target/debug/countersign demo').textContent()) ?? ''
  await first.context().close()
  await server.stop()

  const { demo, page, left } = await opened(offered)
  // The agent reads at once, and asks before it pays money back.
  await waitsFor(page, 'C-1041')
  await card(page).getByText('240').first().waitFor()
  await demo.says(/next: countersign approve inv_\w+\r?\n/)
  await page.keyboard.press('a')
  await demo.says(/✓ approve: (.*)/)
  await receiptIsVerified(page)
  // Denied by a rule: nobody is asked.
  expect(await demo.says(/✓ deny: (.*)/)).toContain('crm.delete_customer')

  await inbox(page)
  await nextOne(page)
  await waitsFor(page, 'C-1042')
  await demo.says(/next: countersign approve inv_\w+ --grant --calls 3\r?\n/)
  await page.keyboard.press('g')
  await page.getByRole('textbox', { name: 'Calls' }).fill('3')
  await page.keyboard.press('Enter')
  await page.getByText(/Grant \S+ is active/).waitFor()
  await nextOne(page)
  await waitsFor(page, 'C-1046')
  await demo.says(/next: countersign deny inv_\w+ --reason 'enough for today'\r?\n/)
  await page.keyboard.press('d')
  await page.getByLabel('Why? The agent reads it.').fill('enough for today')
  await page.keyboard.press('Enter')
  await card(page)
    .getByText(/^Denied by .*“enough for today”/)
    .waitFor()
  expect(await demo.says(/✓ grant: (.*)/)).toContain('3 of 3 calls of the grant ran without a person; the next waited for one again')

  await nextOne(page)
  await waitsFor(page, 'shop')
  await card(page).getByText('“allow” became “require_approval” because the definition changed.').waitFor()
  await page.keyboard.press('a')
  expect(await demo.says(/✓ drift: (.*)/)).toContain('bypass_checks')

  // An automation of the gallery is saved and run, and approved on the page of its run.
  await page.goto(await demo.says(/(http\S+\/automations\/gallery\?starter=morning-note)\s/))
  await page.getByRole('button', { name: 'Go on' }).press('Enter')
  await page.getByText('1 step will wait for approval.').waitFor()
  await page.getByRole('button', { name: 'Review & save…' }).press('Enter')
  await page.getByRole('dialog').getByText('notify.send').first().waitFor()
  await page.getByRole('button', { name: 'Save it' }).press('Enter')
  expect(await demo.says(/✓ automation: (.*)/)).toContain('`look` runs by itself, `tell` asks first')
  expect(await demo.says(/press “Run now…” on (http\S+)\s/)).toMatch(/\/automations\/aut_/)
  await page.getByRole('button', { name: 'Run now…' }).press('Enter')
  await page.getByRole('button', { name: 'Run it' }).press('Enter')
  await page.waitForURL(/\/runs\/run_/)
  expect(page.url()).toContain(await demo.says(/approve it inside its run, on (http\S+)\s/))
  const step = page.getByRole('region', { name: 'The selected step' })
  await step
    .getByRole('button', { name: /^Approve once/ })
    .and(page.locator(':enabled'))
    .press('Enter')
  expect(await demo.says(/✓ run: (.*)/)).toContain('which waited for a person inside the run and said “Files in reports: 2”')

  // An event that a program gave up is asked for once more.
  await page.goto(await demo.says(/press “Retry” on (http\S+)\s/))
  await page.getByRole('button', { name: /^Retry dlt_/ }).press('Enter')
  expect(await demo.says(/✓ dead_letter: (.*)/)).toContain('asked for once more, it is booked')

  await demo.says(/The report is in the channel/)
  await inbox(page)
  await page.getByRole('button', { name: 'To settle' }).press('Enter')
  await page.getByLabel('You looked there yourself: how do you know?').fill('it is in the channel')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await demo.says(/✓ in_doubt: (.*)/)).toContain('settled as succeeded by a person; posted once')
  expect(await demo.says(/✓ tamper: (.*)/)).toContain('with one byte flipped')
  await demo.says(/That was the story/)

  await page.context().close()
  demo.type('\x03')
  expect([await demo.exit(), left()]).toEqual([0, []])
})

test('the demo saves by itself what the gallery begins with', () => {
  const starter = STARTERS.find(each => each.id === 'morning-note')
  const saved = JSON.parse(readFileSync('../crates/commands/src/commands/demo/story/morning-note.json', 'utf8'))
  expect(saved).toEqual(starter && built(starter, asGiven(starter)))
})

/** The command as it is written, run at a terminal in a folder like that of `make run`; and the address that it prints, opened. */
async function opened(command: string) {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-e2e-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const temporary = join(folder, 'temporary')
  for (const each of ['temporary', 'target/debug']) mkdirSync(join(folder, each), { recursive: true })
  symlinkSync(BINARY, join(folder, 'target/debug/countersign'))
  const words = ['sh', '-c', `cd '${folder}' && exec ${command}`]
  const demo = program(words, { env: { ...process.env, TMPDIR: temporary }, terminal: true })
  const link = await demo.says(ONE_TIME_LINK)
  const page = await visit({ url: new URL(link).origin, token: '' }, { token: null, path: link })
  await page.getByRole('button', { name: 'Log in here' }).press('Enter')
  await loggedIn(page)
  return { demo, page, left: () => readdirSync(temporary) }
}

/** Goes to the inbox, from wherever. */
async function inbox(page: Page): Promise<void> {
  await page
    .getByRole('link', { name: /^Inbox/ })
    .first()
    .press('Enter')
}

/** The open call is the one with this param, and can be answered. */
async function waitsFor(page: Page, param: string): Promise<void> {
  await card(page).getByText(param, { exact: true }).first().waitFor()
  await approvable(page)
}

/** What arrived is behind a button: it is shown, and opened. */
async function nextOne(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^1 new/ }).waitFor()
  await page.keyboard.press('n')
  await page.keyboard.press('j')
}

async function receiptIsVerified(page: Page): Promise<void> {
  await card(page)
    .getByRole('link', { name: /^Receipt / })
    .press('Enter')
  await page.getByRole('heading', { name: 'crm.refund' }).waitFor()
  await page.getByRole('status').getByText('Verified', { exact: true }).waitFor()
}
