// From where you are: a link to one call, its page without a script, and the inbox on a phone.
import { expect, test } from 'vitest'
import { body } from '@/api/client'
import { until } from './program'
import { start } from './server'
import { approvable, card, rows, visit } from './visit'

const PHONE = 390

test('a link answers one call, in the browser that opened it', async () => {
  const server = await start()
  const agent = await server.agent('On the road')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'from afar' }, 'for the report')
  const link = await body(
    server.owner.POST('/api/v1/invocations/{invocation}/link', { params: { path: { invocation: call.id } }, body: {} }),
  )
  const page = await visit(server, { token: null, path: link.path, width: PHONE })
  await page.getByRole('button', { name: 'Open it here' }).click()
  await page.getByText('from afar').first().waitFor()
  await page.getByText('for the report').waitFor()
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(PHONE)

  const other = await visit(server, { token: null, path: link.path, width: PHONE, complains: /status of 401/ })
  await other.getByLabel('Access token').waitFor()
  expect(await other.locator('body').textContent()).not.toContain('from afar')

  await page.getByRole('button', { name: /^Approve/ }).click()
  await page
    .getByText(/succeeded/)
    .first()
    .waitFor()
  expect((await agent.ends(call.id)).status).toBe('succeeded')
  expect(server.file('a.txt')).toBe('from afar')
})

test('the page of a call works without a script', async () => {
  const server = await start()
  const agent = await server.agent('On the road')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server, { path: `/inbox/${call.id}`, width: PHONE })
  await page.getByText('files.write_text').first().waitFor()
  await page.getByRole('textbox').last().fill('not from here')
  await page.getByRole('button', { name: /^Deny/ }).click()
  const ended = await agent.ends(call.id)
  expect([ended.status, ended.answer?.reason]).toEqual(['denied', 'not from here'])
})

test('the inbox on a phone: the list, then the call, and buttons that a thumb finds', async () => {
  const server = await start()
  const agent = await server.agent('On the road')
  await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  // However much the agent has to say, what will be sent is in sight.
  const call = await agent.call('files.write_text', { path: 'b.txt', text: 'x' }, 'Please approve it. '.repeat(100))
  const page = await visit(server, { width: PHONE })
  await rows(page).getByText('b.txt').click()
  await approvable(page)
  const sent = async () => (await card(page).getByText('What will be sent').boundingBox())?.y ?? 0
  expect(await sent()).toBeLessThan(400)
  await card(page).getByRole('button', { name: 'Show all' }).click()
  expect(await sent()).toBeGreaterThan(800)
  await card(page).getByRole('button', { name: 'Show less' }).click()
  for (const name of ['Approve once', 'Deny', 'Edit', 'Later']) {
    const box = await card(page).getByRole('button', { name }).boundingBox()
    expect(box?.height, name).toBeGreaterThanOrEqual(44)
    expect((box?.x ?? 0) + (box?.width ?? 0), name).toBeLessThanOrEqual(PHONE)
  }
  await card(page).getByRole('button', { name: 'Approve once' }).click()
  expect((await agent.ends(call.id)).status).toBe('succeeded')
  await page.goBack()
  await until(async () => (await rows(page).count()) === 2)
})
