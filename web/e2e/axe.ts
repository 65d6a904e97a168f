// Whether people can use a page who cannot see, or not well, or use no pointer.
import axe from 'axe-core'
import type { BrowserContext, Page } from 'playwright-core'

type Axe = { axe: typeof axe }

/** What is wrong for them: in light, and the colours in dark. */
export async function wrong(page: Page, where: string): Promise<string[]> {
  await load(page)
  const light = await violations(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.evaluate(() => document.documentElement.classList.add('dark'))
  const dark = await violations(page, ['color-contrast'])
  await page.emulateMedia({ colorScheme: 'light' })
  await page.evaluate(() => document.documentElement.classList.remove('dark'))
  return Object.entries({ light, dark }).flatMap(([theme, all]) =>
    all.flatMap(found =>
      found.nodes.map(node => `${where}, ${theme}: ${found.id}, ${found.help}: ${node.target.join(' ')} ${node.html.slice(0, 120)}`),
    ),
  )
}

// What is right is long, and stays in the browser.
const violations = (page: Page, runOnly?: string[]) =>
  page.evaluate(async runOnly => {
    const { violations } = await (globalThis as unknown as Axe).axe.run({ runOnly, resultTypes: ['violations'] })
    return violations
  }, runOnly)

const loading = new WeakSet<BrowserContext>()

/** The checks take a while to reach the browser: from the next page on, they are there already. */
async function load(page: Page): Promise<void> {
  const context = page.context()
  if (!loading.has(context)) await context.addInitScript(axe.source)
  loading.add(context)
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
}
