// What others try: pages that use the login of this browser, or show ours inside theirs, and texts that are more than text.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from './program'
import { start } from './server'
import { card, visit } from './visit'

/** A page of another site. */
async function otherSite(page: string): Promise<string> {
  const http = createServer((_, response) => response.setHeader('content-type', 'text/html').end(page))
  await new Promise<void>(up => http.listen(0, '127.0.0.1', up))
  onTestFinished(() => void http.close())
  // Another name is another site.
  return `http://localhost:${(http.address() as AddressInfo).port}/`
}

test('a page of others cannot answer with the login of this browser', async () => {
  const server = await start()
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server, { complains: /status of 4\d\d|CORS|ERR_FAILED/ })
  await card(page).waitFor()
  // The word that our own page would send.
  const word = await page.evaluate(async () => ((await (await fetch('/login/word')).json()) as { word: string }).word)
  expect(word).toMatch(/\w{20}/)
  const address = `${server.url}/api/v1/invocations/${call.id}/approve`
  const site = await otherSite('<!doctype html><title>Another site</title>')
  await page.goto(site)
  const tried = await page.evaluate(
    async ([address, word]) => {
      const send = (init: RequestInit) =>
        fetch(address as string, { method: 'POST', credentials: 'include', body: '{}', ...init }).then(
          response => `${response.type} ${response.status}`,
          () => 'refused by the browser',
        )
      return [
        await send({ mode: 'no-cors' }),
        await send({ mode: 'no-cors', headers: { 'content-type': 'text/plain' } }),
        await send({ headers: { 'content-type': 'application/json', 'x-countersign-csrf': word as string } }),
      ]
    },
    [address, word],
  )
  expect(tried).toEqual(['opaque 0', 'opaque 0', 'refused by the browser'])
  // A form that the browser sends by itself, and goes to with its cookies.
  await page.setContent(`<form method="post" action="${address}"><button>Win a prize</button></form>`)
  await page.getByRole('button').click()
  await until(() => page.url() === address)
  // On our own site, without the word or with a wrong one, the cookie counts as nothing either.
  await page.goto(server.url)
  const statuses = await page.evaluate(async address => {
    const send = (headers: Record<string, string>) =>
      fetch(address, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{}' }).then(
        answer => answer.status,
      )
    return [await send({}), await send({ 'x-countersign-csrf': 'f'.repeat(64) })]
  }, address)
  expect(statuses).toEqual([401, 403])
  expect((await agent.read(call.id)).status).toBe('pending')
  // With the word, from our own page, the same request counts: nothing else refused it.
  const own = await page.evaluate(
    async ([address, word]) => {
      const headers = { 'content-type': 'application/json', 'x-countersign-csrf': word as string }
      return (await fetch(address as string, { method: 'POST', headers, body: '{}' })).status
    },
    [address, word],
  )
  expect([own, (await agent.ends(call.id)).status]).toEqual([200, 'succeeded'])
})

test('a script that gets into a page does not run, and the browser says so', async () => {
  const server = await start()
  const page = await visit(server, { complains: /Content Security Policy/ })
  const said: string[] = []
  page.on('console', message => message.type() === 'error' && said.push(message.text()))
  await page.getByText('Nothing waits for you').waitFor()
  await page.evaluate(() => {
    const script = document.createElement('script')
    script.textContent = 'document.title = "owned"'
    document.body.append(script)
    document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="document.title = \'owned\'">')
  })
  await until(() => said.length >= 2)
  for (const text of said) expect(text).toContain('Content Security Policy')
  expect(await page.title()).toBe('Inbox · Countersign')
})

test('no page of others shows ours inside itself', async () => {
  const server = await start()
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const page = await visit(server, { complains: /frame-ancestors|X-Frame-Options|chrome-error|status of 4\d\d/i })
  const places = ['/', '/receipts', '/login', `/inbox/${call.id}`]
  const site = await otherSite(places.map(place => `<iframe src="${server.url}${place}"></iframe>`).join(''))
  await page.goto(site)
  await page.waitForLoadState('networkidle')
  const shown = page.frames().filter(frame => frame !== page.mainFrame())
  expect(shown.length).toBe(places.length)
  for (const frame of shown) expect(frame.url()).toBe('chrome-error://chromewebdata/')
})

test('texts of an agent are text: no markup, and what is invisible or turns around is written out', async () => {
  const server = await start()
  const agent = await server.agent('<img src=x onerror=alert(1)> \u202etitle')
  const evil = {
    path: 'a<b>bold</b>.txt',
    text: '<script>document.title="owned"</script>\u202egnp.exe\u200b[click](https://evil.example)\u{e0041}',
  }
  const { id } = await agent.call('files.write_text', evil, 'approve <b>now</b>\u2066 or <a href="https://evil.example">else</a>')
  const title = '<img src=x onerror=alert(1)> \\u{202e}title'
  const reason = 'approve <b>now</b>\\u{2066} or <a href="https://evil.example">else</a>'
  const texts = [
    'a<b>bold</b>.txt',
    '<script>document.title="owned"</script>',
    '\\u{202e}gnp.exe\\u{200b}[click](https://evil.example)\\u{e0041}',
  ]
  const shown: Record<string, string[]> = {
    '/': [title, reason, ...texts],
    [`/inbox/${id}`]: [reason, ...texts],
    [`/invocations/${id}`]: texts,
    '/policies/sessions': [title],
    [`/policies/sessions/${agent.id}`]: [title],
  }
  const page = await visit(server)
  for (const [place, expected] of Object.entries(shown)) {
    await page.goto(place)
    for (const text of expected) await page.getByText(text).first().waitFor()
    const seen = await page.locator('body').textContent()
    expect(seen, place).not.toMatch(/[\u200b-\u200f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u)
    expect(await page.locator('a[href*=evil], img[src=x], b:text("now"), b:text("bold")').count(), place).toBe(0)
    expect(await page.title(), place).not.toContain('owned')
  }
})
