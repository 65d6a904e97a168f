// Whether people can use a page who cannot see, or not well, or use no pointer.
import axe from 'axe-core'
import type { BrowserContext, Page } from 'playwright-core'

type Axe = { axe: typeof axe }

export type Theme = 'light' | 'dark'

/** What is wrong for them: in one theme, or in light, and the colours in dark. */
export async function wrong(page: Page, where: string, theme?: Theme): Promise<string[]> {
  await load(page)
  if (theme) return inTheme(page, where, theme)
  return [...(await inTheme(page, where, 'light')), ...(await inTheme(page, where, 'dark', ['color-contrast']))]
}

async function inTheme(page: Page, where: string, theme: Theme, rules?: string[]): Promise<string[]> {
  await turn(page, theme)
  const all = await violations(page, rules)
  await turn(page, 'light')
  return all.flatMap(found =>
    found.nodes.map(node => `${where}, ${theme}: ${found.id}, ${found.help}: ${node.target.join(' ')} ${node.html.slice(0, 120)}`),
  )
}

async function turn(page: Page, theme: Theme): Promise<void> {
  await page.emulateMedia({ colorScheme: theme })
  await page.evaluate(isDark => document.documentElement.classList.toggle('dark', isDark), theme === 'dark')
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
