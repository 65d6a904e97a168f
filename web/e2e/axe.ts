// Whether people can use a page who cannot see, or not well, or use no pointer.
import axe from 'axe-core'
import type { Page } from 'playwright-core'

type Axe = { axe: typeof axe }

/** What is wrong for them: in light, and the colours in dark. */
export async function wrong(page: Page, where: string): Promise<string[]> {
  await page.evaluate(axe.source)
  const light = await page.evaluate(() => (globalThis as unknown as Axe).axe.run())
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.evaluate(() => document.documentElement.classList.add('dark'))
  const dark = await page.evaluate(() => (globalThis as unknown as Axe).axe.run({ runOnly: ['color-contrast'] }))
  await page.emulateMedia({ colorScheme: 'light' })
  await page.evaluate(() => document.documentElement.classList.remove('dark'))
  return Object.entries({ light, dark }).flatMap(([theme, { violations }]) =>
    violations.flatMap(found =>
      found.nodes.map(node => `${where}, ${theme}: ${found.id}, ${found.help}: ${node.target.join(' ')} ${node.html.slice(0, 120)}`),
    ),
  )
}
