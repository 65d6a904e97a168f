// People who sign in where their organisation does, at a real issuer on another site.
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { body } from '@/api/client'
import { wrong } from './axe'
import { issuer } from './issuer'
import { type Server, start } from './server'
import { approvable, card, drawn, visit } from './visit'

const REFUSED = /status of (401|403|502)/

const people = async (server: Server) => (await body(server.owner.GET('/api/v1/users', {}))).items
const isIn = (page: Page, who: string) => page.getByText(who, { exact: true }).waitFor()

test('a person signs in at the issuer, lands where they wanted to, and may do what their group there gives them', async () => {
  const sso = await issuer('readers=viewer,approvers=approver')
  const server = await start({ settings: sso.settings })
  const agent = await server.agent('Write a note')
  const call = await agent.call('files.write_text', { path: 'a.txt', text: 'x' })
  const place = `/?call=${call.id}`

  await sso.group('readers')
  const reader = await visit(server, { token: null, path: place })
  await sso.signIn(reader, 'robin')
  await reader.waitForURL(url => url.href === `${server.url}${place}`)
  await isIn(reader, 'robin viewer')
  await card(reader).getByText('You can read this call, and people with another role answer it.').waitFor()
  const sent: string[] = []
  reader.on('request', request => request.method() === 'POST' && sent.push(request.url()))
  await reader.keyboard.press('a')
  await drawn(reader)
  expect(sent).toEqual([])
  expect((await agent.read(call.id)).status).toBe('pending')

  // The group gives a role up to the one that somebody here gave.
  const robin = (await people(server)).find(person => person.name === 'robin')?.id ?? ''
  await body(server.owner.PATCH('/api/v1/users/{user}', { params: { path: { user: robin } }, body: { role: 'approver' } }))
  await sso.group('approvers')
  const approver = await visit(server, { token: null, path: place })
  await sso.signIn(approver, 'robin')
  await isIn(approver, 'robin approver')
  await approvable(approver)
  await approver.keyboard.press('a')
  await card(approver)
    .getByText(/^Approved by robin .*, and it succeeded\.$/)
    .waitFor()
  expect((await people(server)).map(person => person.name).sort()).toEqual(['owner', 'robin'])
})

test('whoever is refused at the issuer, or has no group that counts here, is told so and is not in', async () => {
  const sso = await issuer('approvers=approver')
  const server = await start({ settings: sso.settings })
  const told = async (page: Page, words: string) => {
    await page.getByText(words).waitFor()
    expect(await wrong(page, words)).toEqual([])
    await page.getByRole('link', { name: 'Sign in with Example SSO' }).waitFor()
    await page.goto('/receipts')
    await page.waitForURL(url => url.pathname === '/login')
  }

  const refused = await visit(server, { token: null, path: '/login', complains: REFUSED })
  expect(await wrong(refused, '/login')).toEqual([])
  await sso.cancel(refused)
  await told(refused, 'did not let you in')

  await sso.group('strangers')
  const stranger = await visit(server, { token: null, path: '/login', complains: REFUSED })
  await sso.signIn(stranger, 'robin')
  await told(stranger, 'none of your groups at Example SSO gives you a role here')
  expect((await people(server)).map(person => person.name)).toEqual(['owner'])
})
