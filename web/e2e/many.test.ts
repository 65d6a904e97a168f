// Much to do, and little time.
import { expect, test } from 'vitest'
import { until } from './program'
import { start } from './server'
import { approvable, rows, visit } from './visit'

/** Several pages of the list, and many more rows than a screen has. */
const CALLS = process.env.TEST_ALL ? 2_000 : 400
/** What a session may have pending at once. */
const EACH = 10

test('many pending calls scroll: only the rows on the screen exist', { timeout: 180_000 }, async () => {
  const server = await start()
  for (let made = 0; made < CALLS; made += 20 * EACH)
    await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const agent = await server.agent(`Session ${made / EACH + at}`, { unattended: true })
        for (let call = 0; call < EACH; call += 1)
          await agent.call('files.write_text', { path: `${made / EACH + at}-${call}.txt`, text: 'x' })
      }),
    )
  const page = await visit(server)
  // The first page is shown and answered before the others are read, and those stand below it.
  let release = () => {}
  const held = new Promise<void>(done => {
    release = done
  })
  await page.route(/invocations\?.*status=pending.*after=/, async route => {
    await held
    await route.fallback()
  })
  await page.reload()
  await approvable(page)
  await until(async () => (await page.title()) === '(100) Inbox · Countersign')
  const first = () => rows(page).first().textContent()
  const before = (await first())?.slice(0, 40)
  release()
  await until(async () => (await page.title()) === `(${CALLS}) Inbox · Countersign`, 120_000)
  expect((await first())?.slice(0, 40)).toBe(before)
  const counts: number[] = []
  const list = page.getByRole('list', { name: 'Calls' })
  const frames = await list.evaluate(async element => {
    const scroller = element.parentElement as HTMLElement
    const times: number[] = []
    let last = performance.now()
    for (let top = 0; top < scroller.scrollHeight; top += 2_000) {
      scroller.scrollTop = top
      await new Promise(requestAnimationFrame)
      const now = performance.now()
      times.push(now - last)
      last = now
    }
    return times.sort((a, b) => a - b)
  })
  counts.push(await rows(page).count())
  await page.keyboard.press('j')
  counts.push(await rows(page).count())
  console.log(
    `${CALLS} calls: the middle of ${frames.length} frames took ${frames[frames.length >> 1]?.toFixed(0)} ms, the longest ${frames.at(-1)?.toFixed(0)} ms`,
  )
  for (const count of counts) {
    expect(count).toBeGreaterThan(5)
    expect(count).toBeLessThan(60)
  }
})

test('a cold load: how long until the inbox can be used', async () => {
  const server = await start()
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  // A page of the server itself: nothing of the web UI is loaded yet.
  const page = await visit(server, { path: `/inbox/${call.id}` })
  const began = Date.now()
  await page.goto('/')
  await approvable(page)
  console.log(`the inbox can be used ${Date.now() - began} ms after it was opened`)
})
