// A person at a browser. Whatever the browser complains about fails the test, unless the test says that it must.
import { existsSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core'
import { expect, inject, onTestFinished } from 'vitest'
import { until } from './program'
import type { Server } from './server'

let browser: Promise<Browser> | undefined

export type Options = {
  path?: string
  width?: number
  theme?: 'light' | 'dark'
  /** Who logs in; nobody if it is `null`. */
  token?: string | null
  /** Complaints of the browser that belong to the journey. */
  complains?: RegExp
}

/** Opens a page in a browser of its own, logged in. */
export async function visit(server: Pick<Server, 'url' | 'token'>, options: Options = {}): Promise<Page> {
  const { path = '/', width = 1280, theme = 'light', token = server.token, complains } = options
  browser ??= chromium.connect(inject('chromium'))
  const context = await (await browser).newContext({
    viewport: { width, height: 800 },
    colorScheme: theme,
    // What turns and pulses would be drawn again and again.
    reducedMotion: 'reduce',
    baseURL: server.url,
  })
  context.setDefaultTimeout(30_000)
  const page = await context.newPage()
  watch(context, page, complains)
  if (process.env.DIST) await replaced(page, server.url, process.env.DIST)
  if (token !== null) {
    await page.goto(`/login?next=${encodeURIComponent(path)}`)
    await page.getByLabel('Access token').fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    await loggedIn(page, path)
  } else if (options.path) {
    await page.goto(path)
  }
  return page
}

/** Another tab of the same browser, on the same page. */
export async function anotherTab(page: Page): Promise<Page> {
  const tab = await page.context().newPage()
  watch(page.context(), tab, undefined)
  if (process.env.DIST) await replaced(tab, new URL(page.url()).origin, process.env.DIST)
  await tab.goto(page.url())
  return tab
}

/** Waits for the page after a login. Where a redirect leads, nothing is replaced, so then it is opened anew. */
export async function loggedIn(page: Page, path = '/'): Promise<void> {
  await page.waitForURL(url => !url.pathname.startsWith('/login'))
  if (process.env.DIST) await page.goto(path)
}

/** A call may end in the very moment in which it is looked up what it would do. The browser says so, and the page shows its end. */
const ENDED = /status of 409 \(Conflict\) \S+\/foresight$/

/** What each page waits for. */
const loading = new WeakMap<Page, Set<Request>>()

function watch(context: BrowserContext, page: Page, complains: RegExp | undefined): void {
  const complaints: string[] = []
  const add = (text: string) => complains?.test(text) || ENDED.test(text) || complaints.push(text)
  const open = new Set<Request>()
  loading.set(page, open)
  // The stream has no end.
  page.on('request', request => void (/\/stream\b/.test(request.url()) || open.add(request)))
  for (const end of ['requestfinished', 'requestfailed'] as const) page.on(end as 'requestfinished', request => void open.delete(request))
  // What the content security policy refuses is an error on the console, too.
  page.on(
    'console',
    message =>
      (message.type() === 'error' || message.type() === 'warning') && add(`${message.type()}: ${message.text()} ${message.location().url}`),
  )
  page.on('pageerror', error => add(`pageerror: ${error.stack ?? error.message}`))
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') {
      const picture = join(tmpdir(), `${task.name.replace(/\W+/g, '-')}.png`)
      await page.screenshot({ path: picture }).then(
        () => console.error(`the page when it failed: ${picture}`),
        () => {},
      )
    }
    await context.close()
    expect(complaints, 'what the browser complained about').toEqual([])
  })
}

/** The web UI of this folder instead of the one in the binary: a change is tried without compiling the server. */
async function replaced(page: Page, url: string, dist: string): Promise<void> {
  const kinds: Record<string, string> = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', woff2: 'font/woff2' }
  await page.route(`${url}/**`, async route => {
    const { pathname } = new URL(route.request().url())
    const kind = kinds[pathname.split('.').pop() ?? '']
    if (kind && existsSync(join(dist, pathname))) return route.fulfill({ path: join(dist, pathname), contentType: kind })
    if (route.request().resourceType() !== 'document' || route.request().method() !== 'GET') return route.continue()
    const answer = await route.fetch({ maxRedirects: 0 })
    if (!(await answer.text()).includes('id="root"')) return route.fulfill({ response: answer })
    const { 'content-encoding': _, ...headers } = answer.headers()
    return route.fulfill({ status: 200, headers, body: readFileSync(join(dist, 'index.html')) })
  })
}

/** The call that is open. */
export const card = (page: Page) => page.getByRole('region', { name: 'The selected call' })

/** The rows of the list. */
export const rows = (page: Page) => page.getByRole('list', { name: 'Calls' }).getByRole('listitem')

/** Waits until the call that is open can be approved: what it would do is looked up first. */
export const approvable = (page: Page) =>
  card(page)
    .getByRole('button', { name: /^(Approve once|Hold to approve)/ })
    .and(page.locator(':enabled'))
    .waitFor()

/** Nothing is loaded any more, and what was is shown. */
export const settled = async (page: Page) => {
  await page.locator('main').waitFor()
  // A page of ours begins with one; until then, its script is still loaded.
  await page.locator('h1').first().waitFor({ state: 'attached' })
  await until(async () => {
    await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
    await drawn(page)
    return loading.get(page)?.size === 0
  })
}

/** What happened so far has had its effect on the page. */
export const drawn = (page: Page) =>
  page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))))
