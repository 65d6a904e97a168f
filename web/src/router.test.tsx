// What holds for every address.
import { screen, waitFor } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'
import { base } from '@/test/server'

const none = () => ({ items: [], next: null })

test('the title of the window names the page, and how many calls wait', async () => {
  const { router } = openPage('/policies/grants', {
    'GET /api/v1/grants': none,
    'GET /api/v1/invocations': () => ({
      items: [{ ...base, expires_at: new Date(Date.now() + 60_000).toISOString() }],
      next: null,
    }),
  })
  await waitFor(() => expect(document.title).toBe('(1) Grants · Countersign'))
  await router.navigate({ to: '/receipts' })
  await waitFor(() => expect(document.title).toBe('(1) Receipts · Countersign'))
  expect(await screen.findByRole('heading', { name: 'Receipts' })).toBeTruthy()
})
