import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import type { Invocation } from '@/api/types'
import { openPage } from '@/test/page'
import { base, me } from '@/test/server'

const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString()
const call = (id: string, more: Partial<Invocation>): Invocation => ({ ...base, id, created_at: ago(5), ...more })
const list = (items: unknown[]) => ({ items, next: null })

function open(calls: Invocation[], more: Parameters<typeof openPage>[1] = {}) {
  return openPage('/overview', {
    'GET /api/v1/invocations': ({ path }) =>
      list(path.includes('status=pending') ? calls.filter(item => item.status === 'pending') : calls),
    'GET /api/v1/status': () => ({ version: '0.1.0', store: 'sqlite', ready: true, pending: 1, in_doubt: 2, log_size: 9 }),
    'GET /api/v1/sessions': () => list([{ title: 'cli' }]),
    'GET /api/v1/sources': () => list([]),
    'GET /api/v1/users': () => list([{ id: 'usr_x', name: 'ada', role: 'owner' }]),
    'GET /api/v1/channels': () => list([]),
    ...more,
  })
}

test('the charts say in words what they show', async () => {
  open([
    call('inv_1', { status: 'pending' }),
    call('inv_2', { status: 'succeeded', mode: 'allow', action: 'files.list' }),
    call('inv_3', { status: 'failed', mode: 'allow', action: 'files.list' }),
    call('inv_4', { status: 'succeeded', answer: { by: 'user:usr_x', at: ago(4) }, waited_ms: 42_000 }),
    call('inv_5', { status: 'denied', mode: 'deny', denied_by: 'policy' }),
    call('inv_6', { status: 'succeeded', dry_run: true }),
  ])
  const decisions = await screen.findByRole('region', { name: 'Calls by decision' })
  expect(decisions.textContent).toContain('5 calls')
  for (const words of ['2 allowed', '2 asked a person', '1 denied']) expect(decisions.textContent).toContain(words)
  expect(screen.getByRole('region', { name: 'Time until people answered' }).textContent).toContain('42.0 s median')
  expect(screen.getByRole('region', { name: 'Failures' }).textContent).toContain('1 of 5 calls')
  // A table that is hidden itself keeps its width, and makes the page too wide for a phone.
  for (const table of screen.getAllByRole('table')) expect(table.parentElement?.className).toBe('sr-only')
  const top = screen.getByRole('region', { name: 'Top actions' })
  expect(within(top).getAllByRole('listitem')[0]?.textContent).toContain('files.write_text')
  await waitFor(() => expect(screen.getByRole('link', { name: 'In doubt' }).closest('div')?.textContent).toContain('2'))
})

test('the first steps stay until they are done or dismissed', async () => {
  const { user } = open([call('inv_1', { principal: 'agent:ses_1' })])
  const steps = await screen.findByRole('region', { name: /First steps/ })
  expect(steps.textContent).toContain('1 of 4 done')
  expect(steps.textContent).toContain('Connect an agent (done)')
  expect(steps.textContent).toContain('countersign source add --help')
  await user.click(within(steps).getByRole('button', { name: 'Dismiss' }))
  expect(screen.queryByRole('region', { name: /First steps/ })).toBeNull()
  expect(localStorage.getItem('first-steps')).toBe('dismissed')
})

test('whoever only reads is asked for no steps', async () => {
  open([call('inv_1', {})], { 'GET /api/v1/whoami': () => ({ ...me, role: 'viewer', permissions: ['read'] }) })
  await screen.findByRole('region', { name: 'Top actions' })
  expect(screen.queryByRole('region', { name: /First steps/ })).toBeNull()
})
