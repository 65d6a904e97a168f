import { screen } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'

test('a filter that nothing fits says so, and is taken away again', async () => {
  const { user } = openPage('/actions?q=zzzz', {})
  expect(await screen.findByText('No action is called so')).toBeTruthy()
  expect(screen.queryByRole('heading', { name: /Files/ })).toBeNull()
  await user.click(screen.getByRole('button', { name: 'Show all' }))
  expect(await screen.findByRole('heading', { name: /Files/ })).toBeTruthy()
})
