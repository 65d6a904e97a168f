import { expect, test } from 'vitest'
import { wrong } from './axe'
import { places } from './places'
import { type Seeded, seeded } from './seed'
import { start } from './server'
import { approvable, card, settled, visit } from './visit'

async function lookedAt(here: Seeded, width: number): Promise<string[]> {
  const page = await visit(here.server, { width })
  const found: string[] = []
  for (const place of places(here)) {
    await page.goto(place)
    await settled(page)
    found.push(...(await wrong(page, `${place}, ${width} px`)))
    const wide = await page.evaluate(() => document.documentElement.scrollWidth)
    if (wide > width) found.push(`${place} is ${wide} px wide on ${width}`)
  }
  return found
}

test('what people cannot use is found, in light and in dark', async () => {
  const page = await visit(await start(), { token: null, path: '/login' })
  expect(await wrong(page, 'as it is')).toEqual([])
  await page.evaluate(() => {
    const main = document.querySelector('main') as HTMLElement
    main.append(document.createElement('input'))
    const text = document.createElement('p')
    text.textContent = 'hardly to be seen'
    Object.assign(text.style, { color: '#eee', background: '#fff' })
    main.append(text)
  })
  const found = (await wrong(page, 'changed')).map(each => each.split(', ')[1])
  expect(found.sort()).toEqual(['dark: color-contrast', 'light: color-contrast', 'light: label'])
})

test('every page is accessible, on a screen and on a phone', { timeout: 240_000 }, async () => {
  const here = await seeded()
  expect((await Promise.all([1280, 390].map(width => lookedAt(here, width)))).flat()).toEqual([])
})

test('an empty inbox is accessible, and without a login it leads to one', async () => {
  const server = await start()
  const empty = await visit(server)
  await empty.getByText('Nothing waits for you').waitFor()
  const outside = await visit(server, { token: null, path: '/' })
  await outside.waitForURL(url => url.pathname === '/login' && url.searchParams.get('next') === '/')
  expect([...(await wrong(empty, 'empty')), ...(await wrong(outside, 'outside'))]).toEqual([])
})

test('every dialog is accessible', async () => {
  const here = await seeded()
  const page = await visit(here.server, { path: `/?call=${here.examples.call}` })
  await approvable(page)
  const found: string[] = []
  for (const key of ['d', 'e', 'g', 'Shift+A', '?', 'Control+k']) {
    await page.keyboard.press(key)
    await page.getByRole('dialog').waitFor()
    found.push(...(await wrong(page, key)))
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  await page.goto(`/?call=${here.examples.refund}`)
  await approvable(page)
  await page.keyboard.press('e')
  await page
    .getByRole('dialog')
    .getByLabel(/^How much/)
    .waitFor()
  found.push(...(await wrong(page, 'a rich form')))
  await page.keyboard.press('Escape')
  await card(page).getByRole('button', { name: 'More ways to approve' }).click()
  await page.getByRole('menu').waitFor()
  found.push(...(await wrong(page, 'menu')))
  expect(found).toEqual([])
})

test('pages of the server without a script are accessible', async () => {
  const server = await start()
  const agent = await server.agent('On the road')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const found: string[] = []
  const outside = await visit(server, { width: 390, token: null, path: '/login' })
  found.push(...(await wrong(outside, '/login')))
  const inside = await visit(server, { width: 390, path: `/inbox/${call.id}` })
  found.push(...(await wrong(inside, '/inbox')))
  expect(found).toEqual([])
})
