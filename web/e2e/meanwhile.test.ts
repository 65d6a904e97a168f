// What happens elsewhere while the inbox is open.
import { expect, test } from 'vitest'
import { body } from '@/api/client'
import { until } from './program'
import { start } from './server'
import { upstream } from './upstream'
import { anotherTab, approvable, card, rows, visit } from './visit'

const REFUSED = /the server responded with a status of 4\d\d|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET/

test('a call that expires while it is open turns grey, says so, and stays', async () => {
  const server = await start()
  const agent = await server.agent('Nobody looks')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server)
  await approvable(page)
  server.expireIn(call.id, 8)
  await page.reload()
  await card(page)
    .getByText(/expires in 0:0\d/)
    .waitFor()
  await card(page)
    .getByText(/time to be answered is over|Nobody answered in time/)
    .waitFor()
  expect(await card(page).getByRole('button', { name: 'Approve once' }).count()).toBe(0)
  // The server ends it by itself, and the page hears of it.
  await card(page).getByText('Nobody answered in time; nothing was done.').waitFor()
  expect((await agent.ends(call.id)).status).toBe('expired')
  expect(await rows(page).count()).toBe(1)
  await page.getByRole('button', { name: /clear 1 ended/ }).click()
  await page.getByText('Nothing waits for you').waitFor()
  expect(server.file('a.txt')).toBeUndefined()
})

test('two people answer the same call: one counts, and the other sees who', async () => {
  const server = await start()
  const invited = await body(server.owner.POST('/api/v1/users', { body: { name: 'Ada', role: 'approver' } }))
  const ada = await body(server.owner.POST('/api/v1/invitations/redeem', { body: { invitation: invited.invitation.invitation } }))
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const [first, second] = [await visit(server), await visit(server, { token: ada.token, complains: REFUSED })]
  await Promise.all([approvable(first), approvable(second)])
  // The second hears nothing until it has pressed its key.
  await second.getByRole('button', { name: 'Pause the stream' }).click()
  await first.keyboard.press('a')
  await card(first)
    .getByText(/^Approved by .*, and it succeeded\.$/)
    .waitFor()
  await second.keyboard.press('a')
  await card(second)
    .getByText(/^Approved by owner .*, and it succeeded\.$/)
    .waitFor()
  const ended = await agent.ends(call.id)
  expect([ended.status, ended.attempts]).toEqual(['succeeded', 1])
})

test('what another person decides turns grey by itself, and says who', async () => {
  const server = await start()
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server)
  await approvable(page)
  const path = { invocation: call.id }
  await body(server.owner.POST('/api/v1/invocations/{invocation}/deny', { params: { path }, body: { reason: 'not today' } }))
  await card(page)
    .getByText(/^Denied by .*“not today”/)
    .waitFor()
  expect(await rows(page).count()).toBe(1)
})

test('what would change is looked up again when another call is made', async () => {
  const server = await start()
  const agent = await server.agent('Write the same note twice')
  const first = await agent.call('files.write_text', { path: 'same.txt', text: 'one' })
  const second = await agent.call('files.write_text', { path: 'same.txt', text: 'two' })
  const page = await visit(server, { path: `/?call=${second.id}` })
  await approvable(page)
  await page.getByText('live', { exact: true }).waitFor()
  await card(page).getByText('+ would create').waitFor()
  const path = { invocation: first.id }
  await body(server.owner.POST('/api/v1/invocations/{invocation}/approve', { params: { path }, body: {} }))
  await card(page).getByText('~ would change').waitFor()
  expect(await card(page).getByText('+ would create').count()).toBe(0)
  await approvable(page)
  await page.keyboard.press('a')
  await card(page)
    .getByText(/^Approved by .*, and it succeeded\.$/)
    .waitFor()
  expect(server.file('same.txt')).toBe('two')
})

test('a kill switch stops the clock of an open call, and a rule that voids it turns it grey', async () => {
  const server = await start()
  const { owner } = server
  const agent = await server.agent('Write a note')
  await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server)
  await approvable(page)
  await body(owner.POST('/api/v1/kill-switches/on', { body: { scope: 'source:files', reason: 'odd requests' } }))
  await card(page).getByText('A kill switch is on: it stays pending, and its time is stopped.').waitFor()
  await rows(page).getByText('stopped', { exact: true }).waitFor()
  const banner = page.getByRole('status').filter({ hasText: 'A kill switch is on: source:files.' })
  await banner.waitFor()
  await body(owner.POST('/api/v1/kill-switches/off', { body: { scope: 'source:files' } }))
  await card(page)
    .getByText(/expires in/)
    .waitFor()
  await approvable(page)
  await banner.waitFor({ state: 'detached' })

  await body(owner.PUT('/api/v1/modes/{action}', { params: { path: { action: 'files.write_text' } }, body: { mode: 'require_approval' } }))
  await card(page)
    .getByText(/^Void: /)
    .waitFor()
  expect(await card(page).getByRole('button', { name: 'Approve once' }).count()).toBe(0)
  expect([await rows(page).count(), await page.title()]).toEqual([1, 'Inbox · Countersign'])
})

test('nothing moves under the cursor: what arrives waits behind a button', async () => {
  const server = await start()
  const agent = await server.agent('Write notes')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server)
  await approvable(page)
  // It ends sooner, so it would stand above.
  const other = await agent.call('files.write_text', { path: 'b.txt', text: 'x' })
  server.expireIn(other.id, 100)
  const news = page.getByRole('button', { name: /^1 new/ })
  await news.waitFor()
  expect([await rows(page).count(), new URL(page.url()).searchParams.get('call')]).toEqual([1, call.id])
  expect(await page.title()).toBe('(2) Inbox · Countersign')
  await page.keyboard.press('n')
  await until(async () => (await rows(page).count()) === 2)
  expect(new URL(page.url()).searchParams.get('call')).toBe(call.id)
})

test('the server starts anew while the page is open: it reconnects, and nothing is missed', async () => {
  const server = await start()
  const agent = await server.agent('Write notes', { unattended: true })
  await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server, { complains: REFUSED })
  await approvable(page)
  await page.getByText('live', { exact: true }).waitFor()
  // It comes back to the stream only after something has happened there.
  await page.route('**/api/v1/stream**', route => route.abort('connectionrefused'))
  await server.stop()
  await page.getByText('reconnecting', { exact: true }).waitFor()
  await server.again()
  await agent.call('files.write_text', { path: 'b.txt', text: 'x' })
  expect(await page.getByRole('button', { name: /^1 new/ }).count()).toBe(0)
  await page.unroute('**/api/v1/stream**')
  await page.getByRole('button', { name: /^1 new/ }).click()
  await rows(page).getByText('b.txt').waitFor()
  await page.getByText('live', { exact: true }).waitFor()
  await approvable(page)
  await page.keyboard.press('a')
  await card(page)
    .getByText(/^Approved by .*, and it succeeded\.$/)
    .waitFor()
})

test('a definition that changes: the card shows the diff, and after the review the call runs as before', async () => {
  const forge = await upstream()
  const server = await start({ settings: forge.settings })
  await forge.addTo(server)
  const agent = await server.agent('Merge the branch')
  const merge = () => agent.call('forge.merge', { branch: 'main' })
  expect((await merge()).status).toBe('succeeded')
  await forge.drift(server)
  const held = await merge()
  expect(held.status).toBe('pending')

  const page = await visit(server, { path: '/?tab=attention' })
  await page.getByRole('region', { name: 'Definitions to review' }).getByText('forge.merge').waitFor()
  await page.getByRole('button', { name: 'Pending' }).click()
  await card(page).getByText('“allow” became “require_approval” because the definition changed.').waitFor()
  await card(page)
    .getByText(/bypass_checks/)
    .first()
    .waitFor()
  await approvable(page)
  await page.keyboard.press('Shift+A')
  await page.getByText('Its definition has changed since it was reviewed: review it first.').waitFor()
  await card(page).getByRole('link', { name: 'Review the definition' }).click()
  await page
    .getByText(/bypass_checks/)
    .first()
    .waitFor()
  await page.getByRole('button', { name: 'Accept this definition' }).click()
  await page.getByRole('button', { name: 'Accept this definition' }).waitFor({ state: 'detached' })
  expect((await merge()).status).toBe('succeeded')
  expect(forge.called()).toEqual(['merge', 'merge'])
})

test('eight tabs of one browser: all load, hear what happens, and see what one of them decided', async () => {
  const server = await start()
  const agent = await server.agent('Write notes')
  await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const first = await visit(server)
  await approvable(first)
  // Over plain HTTP the browser has six connections to the server.
  const tabs = [first]
  while (tabs.length < 7) tabs.push(await anotherTab(first))
  const last = await anotherTab(first)
  for (const tab of [...tabs, last]) await tab.getByText('live', { exact: true }).waitFor()
  await agent.call('files.write_text', { path: 'b.txt', text: 'x' })
  await last.getByRole('button', { name: /^1 new/ }).waitFor()
  await first.bringToFront()
  await first.keyboard.press('a')
  for (const tab of [first, last]) {
    await card(tab)
      .getByText(/^Approved by .*, and it succeeded\.$/)
      .waitFor()
  }
  // The first one has the stream: another goes on with it.
  await first.close()
  await agent.call('files.write_text', { path: 'c.txt', text: 'x' })
  await last.getByRole('button', { name: /^2 new/ }).waitFor()
})
