import { screen, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { openPage } from '@/test/page'

const entry = (seq: number, more: object = {}) => ({
  seq,
  kind: 'receipt',
  id: `rcp_${seq}`,
  payload: {
    entry: { at: new Date().toISOString() },
    body: { action: 'files.write_text', status: 'succeeded', tier: 'R2', principal: 'user:usr_x', dry_run: false, ...more },
  },
  envelope: {},
})

test('receipts say what was a dry run, and what only was observed', async () => {
  openPage('/receipts', {
    'GET /api/v1/receipts': () => ({ items: [entry(3), entry(2, { dry_run: true }), entry(1, { observed: true })], next: null }),
  })
  await screen.findByText('observed')
  const rows = within(screen.getByRole('main')).getAllByRole('listitem')
  expect(await within(rows[0] as HTMLElement).findByText('Ada')).toBeTruthy()
  expect(rows.map(row => ['dry run', 'observed'].filter(mark => within(row).queryByText(mark)))).toEqual([[], ['dry run'], ['observed']])
})
