// The inbox without a pointer.
import { expect, test } from 'vitest'
import { until } from './program'
import { start } from './server'
import { approvable, card, rows, visit } from './visit'

test('several are chosen, and approved once each, by keyboard alone', async () => {
  const server = await start()
  const agent = await server.agent('Write three notes')
  const ids: string[] = []
  for (const path of ['0.txt', '1.txt', '2.txt']) ids.push((await agent.call('files.write_text', { path, text: 'x' })).id)
  const page = await visit(server)
  await approvable(page)
  const press = (key: string) => page.keyboard.press(key)
  const isAt = (row: number) => rows(page).nth(row).locator('[aria-current=true]').waitFor()
  const selected = (words: string) => page.getByText(`${words} selected`).waitFor()
  await press('x')
  await selected('1 call')
  await press('j')
  await isAt(1)
  await press('j')
  await isAt(2)
  await press('Shift+X')
  await selected('3 calls')
  await press('k')
  await isAt(1)
  await press('x')
  await selected('2 calls')
  // What is typed into the filter is no key of the page, and Esc leaves it: the selection stays.
  await press('/')
  await press('x')
  await until(() => new URL(page.url()).searchParams.get('q') === 'x')
  await press('u')
  await page.getByText('Nothing fits the filter').waitFor()
  await press('Escape')
  await selected('2 calls')

  await press('a')
  const dialog = page.getByRole('dialog', { name: 'Approve 2 calls, each once' })
  await dialog.getByRole('button', { name: 'Approve 2 once' }).press('Enter')
  await dialog.getByText('2 approved.').waitFor()
  await press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect((await agent.read(ids[1] ?? '')).status).toBe('pending')
  for (const id of [ids[0], ids[2]]) expect((await agent.ends(id ?? '')).status).toBe('succeeded')

  await press('Escape')
  await card(page).getByText('Nothing is selected').waitFor()
  // What arrives opens nothing.
  await agent.call('files.write_text', { path: '3.txt', text: 'x' })
  await page.getByRole('button', { name: /^1 new/ }).waitFor()
  await press('n')
  await until(async () => new URL(page.url()).searchParams.get('call') === null)
  await card(page).getByText('Nothing is selected').waitFor()
})

test('after a dialog the focus is back where it was, and keys meant for a dialog do nothing behind it', async () => {
  const server = await start()
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server)
  await approvable(page)
  const dialog = page.getByRole('dialog')
  const button = (name: string) => card(page).getByRole('button', { name })
  const more = button('More ways to approve')
  for (const [opener, open] of [
    [button('Deny'), () => button('Deny').press('Enter')],
    [button('Edit'), () => button('Edit').press('Enter')],
    [
      more,
      async () => {
        await more.press('Enter')
        await page.getByRole('menuitem', { name: 'Grant…' }).press('Enter')
      },
    ],
  ] as const) {
    await open()
    await dialog.waitFor()
    // A click on its words takes the focus out of every field.
    await dialog.getByRole('heading').first().click()
    await page.keyboard.press('a')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(await opener.evaluate(element => document.activeElement === element)).toBe(true)
  }
  expect((await agent.read(call.id)).status).toBe('pending')
})
