import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { places } from './places'
import { seeded } from './seed'
import { start } from './server'
import { approvable, card, visit } from './visit'

/** What is wrong for people who cannot see, or not well, or use no pointer. */
async function wrong(page: Page, where: string): Promise<string[]> {
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate(
    () => (globalThis as unknown as { axe: typeof axe }).axe.run({ resultTypes: ['violations'] } as never) as Promise<axe.AxeResults>,
  )
  return violations.flatMap(found =>
    found.nodes.map(node => `${where} ${found.id}: ${found.help} ${node.target.join(' ')} ${node.html.slice(0, 120)}`),
  )
}

/** Nothing is loaded any more, and nothing moves. */
const settled = async (page: Page) => {
  await page.locator('main').waitFor()
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
  await page.waitForTimeout(300)
}

test.each(['light', 'dark'] as const)('every page is accessible, on a screen and on a phone, %s', { timeout: 180_000 }, async theme => {
  const here = await seeded()
  const found: string[] = []
  for (const width of [1280, 390]) {
    const page = await visit(here.server, { theme, width })
    for (const place of places(here)) {
      await page.goto(place)
      await settled(page)
      found.push(...(await wrong(page, `${width} px, ${place}`)))
      const wide = await page.evaluate(() => document.documentElement.scrollWidth)
      if (wide > width) found.push(`${width} px, ${place}: it is ${wide} px wide`)
    }
  }
  expect(found).toEqual([])
})

test.each(['light', 'dark'] as const)('every dialog is accessible, %s', async theme => {
  const here = await seeded()
  const page = await visit(here.server, { theme, path: `/?call=${here.examples.call}` })
  await approvable(page)
  const found: string[] = []
  for (const key of ['d', 'e', 'g', 'Shift+A', '?', 'Control+k']) {
    await page.keyboard.press(key)
    await page.getByRole('dialog').waitFor()
    found.push(...(await wrong(page, key)))
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
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
  for (const theme of ['light', 'dark'] as const) {
    const page = await visit(server, { theme, width: 390, token: null, path: '/login' })
    found.push(...(await wrong(page, `/login ${theme}`)))
    const inside = await visit(server, { theme, width: 390, path: `/inbox/${call.id}` })
    found.push(...(await wrong(inside, `/inbox ${theme}`)))
  }
  expect(found).toEqual([])
})
