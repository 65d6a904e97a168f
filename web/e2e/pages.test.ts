import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { body } from '@/api/client'
import type { router as Router } from '@/router'
import { type Theme, wrong } from './axe'
import { places } from './places'
import { type Seeded, seeded } from './seed'
import { start } from './server'
import { upstream } from './upstream'
import { approvable, card, rows, settled, visit } from './visit'

const WIDTHS = [1280, 390]
/** What people can use on both can be used between them: there it is only seen whether it fits, also when the window is low. */
const BETWEEN = 768

/** Each page is opened once, in light at the first width, and then gets dark and the other. */
async function lookedAt(here: Seeded, places: string[], widths: number[]): Promise<string[]> {
  const page = await visit(here.server)
  await settled(page)
  const found: string[] = []
  for (const place of places) {
    await resized(page, widths[0])
    await goOn(page, place)
    for (const [at, width] of widths.entries()) {
      await resized(page, width)
      found.push(...(await seen(page, place, at === 0 ? 'light' : 'dark')))
    }
    await page.setViewportSize({ width: BETWEEN, height: 600 })
    const [wide = 0, high = 0] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight])
    if (wide > BETWEEN || high > 600) found.push(`${place} is ${wide} by ${high} px on ${BETWEEN} by 600`)
  }
  return found
}

/** To another page, as a link leads there: to load everything anew takes several times as long as to look. With `--all` it is. */
async function goOn(page: Page, place: string): Promise<void> {
  if (process.env.TEST_ALL) await page.goto(place)
  else
    await page.evaluate(place => {
      const { __TSR_ROUTER__: router } = window as unknown as { __TSR_ROUTER__: typeof Router }
      const shown = new Promise(done => router.subscribe('onRendered', done))
      router.history.push(place)
      return shown.then(() => {})
    }, place)
  await settled(page)
}

const resized = (page: Page, width = 0) => page.setViewportSize({ width, height: 800 })

/** What is wrong with what is shown for people who see little or use no pointer; and whether it is wider than the screen. */
async function seen(page: Page, where: string, theme?: Theme): Promise<string[]> {
  const width = page.viewportSize()?.width ?? 0
  const found = await wrong(page, `${where}, ${width} px`, theme)
  const wide = await page.evaluate(() => document.documentElement.scrollWidth)
  return wide > width ? [...found, `${where} is ${wide} px wide on ${width}`] : found
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

test('every page is accessible, on a screen and on a phone', { timeout: 480_000 }, async () => {
  const here = await seeded()
  const all = places(here)
  const half = Math.ceil(all.length / 2)
  const found = await Promise.all([lookedAt(here, all.slice(0, half), WIDTHS), lookedAt(here, all.slice(half), WIDTHS.toReversed())])
  expect(found.flat()).toEqual([])
})

test('an empty inbox is accessible, and without a login it leads to one', async () => {
  const server = await start()
  const empty = await visit(server)
  await empty.getByText('Nothing waits for you').waitFor()
  const outside = await visit(server, { token: null, path: '/' })
  await outside.waitForURL(url => url.pathname === '/login' && url.searchParams.get('next') === '/')
  expect([...(await wrong(empty, 'empty')), ...(await wrong(outside, 'outside'))]).toEqual([])
})

const click = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click()

/** Where a dialog is, and how it is opened there. */
const DIALOGS: readonly (readonly [place: string, open: (page: Page) => Promise<void>])[] = [
  [
    '/',
    async page => {
      for (const at of [0, 1]) await rows(page).getByRole('checkbox').nth(at).check()
      await click('Approve each once…')(page)
    },
  ],
  ['/policies?action=files.write_text', async () => {}],
  ['/policies/grants', click('Give a grant…')],
  [
    '/policies/kill-switch',
    async page => {
      await page.getByLabel('Why').first().fill('to see')
      await click('Stop it…')(page)
    },
  ],
  ['/settings', click('Invite somebody')],
  ['/settings?tab=tokens', click('Create a token')],
  ['/secrets', click('New connection')],
  ['/events?tab=dead', click(/^Drop dlt_/)],
]

async function opened({ server, examples }: Seeded, width: number): Promise<string[]> {
  const page = await visit(server, { width, path: `/?call=${examples.call}` })
  const dialog = page.getByRole('dialog')
  await approvable(page)
  const found: string[] = []
  const look = async (where: string) => {
    await dialog.waitFor()
    await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
    found.push(...(await seen(page, where)))
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
  }
  for (const key of ['d', 'e', 'g', 'Shift+A', '?', 'Control+k']) {
    await page.keyboard.press(key)
    await look(key)
  }
  await goOn(page, `/?call=${examples.wipe}`)
  await approvable(page)
  await page.keyboard.press('a')
  await look('a dangerous call')
  await goOn(page, `/?call=${examples.refund}`)
  await approvable(page)
  await page.keyboard.press('e')
  await dialog.getByLabel(/^How much/).waitFor()
  await look('a rich form')
  await card(page).getByRole('button', { name: 'More ways to approve' }).click()
  await page.getByRole('menu').waitFor()
  found.push(...(await seen(page, 'menu')))
  await page.keyboard.press('Escape')
  for (const [place, open] of DIALOGS) {
    await goOn(page, place)
    await open(page)
    await look(`the dialog of ${place}`)
  }
  return found
}

test('every dialog is accessible, on a screen and on a phone', { timeout: 300_000 }, async () => {
  const here = await seeded()
  expect((await Promise.all(WIDTHS.map(width => opened(here, width)))).flat()).toEqual([])
})

test('a call in doubt, a kill switch that is on and a space that only observes are accessible', { timeout: 300_000 }, async () => {
  const forge = await upstream()
  const server = await start({ settings: forge.settings })
  const { owner } = server
  await forge.addTo(server)
  const agent = await server.agent('Merge the release')
  // It is answered with an error: what became of it is not known.
  await agent.call('forge.merge', { branch: 'unheard' }).catch(() => {})
  const [doubt] = (await body(owner.GET('/api/v1/invocations', { params: { query: { status: 'in_doubt' } } }))).items
  await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  await body(owner.POST('/api/v1/kill-switches/on', { body: { scope: 'source:files', reason: 'odd requests' } }))
  const { id } = await body(owner.POST('/api/v1/spaces', { body: { name: 'trial' } }))
  await body(owner.PATCH('/api/v1/spaces/{space}', { params: { path: { space: id } }, body: { observes: true } }))
  const places = [
    '/',
    `/?tab=attention&call=${doubt?.id}`,
    '/policies/kill-switch',
    `/policies/spaces/${id}`,
    `/policies/observe?space=${id}`,
  ]
  expect(await lookedAt({ server, examples: {} }, places, WIDTHS)).toEqual([])
})

test('pages of the server without a script are accessible', async () => {
  const server = await start()
  const { owner } = server
  const agent = await server.agent('On the road')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const found: string[] = []
  const look = async (path: string, token?: null) => {
    const page = await visit(server, { width: 390, token, path })
    found.push(...(await seen(page, path)))
    return page
  }
  await look('/login', null)
  await look(`/inbox/${call.id}`)
  const link = await body(owner.POST('/api/v1/invocations/{invocation}/link', { params: { path: { invocation: call.id } }, body: {} }))
  const answer = await look(link.path, null)
  for (const [name, then] of [
    ['Open it here', 'Approve'],
    ['Approve', 'succeeded'],
  ]) {
    await answer.getByRole('button', { name: new RegExp(`^${name}`) }).click()
    await answer
      .getByText(new RegExp(then ?? ''))
      .first()
      .waitFor()
    found.push(...(await seen(answer, `after ${name}`)))
  }
  const invited = await body(owner.POST('/api/v1/users', { body: { name: 'night-shift', role: 'approver' } }))
  await look(`/login/invitation/${invited.invitation.invitation}`, null)
  await look('/login/once/none', null)
  expect(found).toEqual([])
})
