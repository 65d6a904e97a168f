import { render } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import { nameOf, useKeys } from './hotkeys'

const key = (key: string, more: Partial<KeyboardEvent> = {}) =>
  nameOf({ key, shiftKey: false, metaKey: false, ctrlKey: false, altKey: false, ...more })

test('a key has one name on every keyboard', () => {
  expect([key('a'), key('A', { shiftKey: true }), key('?', { shiftKey: true }), key('k', { ctrlKey: true }), key('Escape')]).toEqual([
    'a',
    'Shift+a',
    '?',
    'Mod+k',
    'escape',
  ])
})

function Page({ approve, actions, grant }: Record<'approve' | 'actions' | 'grant', () => void>) {
  useKeys({ 'g a': actions })
  useKeys({ a: approve, g: grant })
  return <input aria-label="words" />
}

test('the second of two keys never means what it means alone', async () => {
  const [approve, actions, grant] = [vi.fn(), vi.fn(), vi.fn()]
  const user = userEvent.setup()
  const page = render(<Page approve={approve} actions={actions} grant={grant} />)
  await user.keyboard('ga')
  expect([actions, approve, grant].map(each => each.mock.calls.length)).toEqual([1, 0, 0])
  await user.keyboard('a')
  expect(approve).toHaveBeenCalledTimes(1)
  await user.keyboard('g')
  await vi.waitFor(() => expect(grant).toHaveBeenCalledTimes(1))
  await user.type(page.getByLabelText('words'), 'aga')
  expect([approve, actions].map(each => each.mock.calls.length)).toEqual([1, 1])
})
