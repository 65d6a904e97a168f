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

function Page({ approve, automations, grant }: Record<'approve' | 'automations' | 'grant', () => void>) {
  useKeys({ 'g a': automations })
  useKeys({ a: approve, g: grant })
  return <input aria-label="words" />
}

test('the second of two keys never means what it means alone', async () => {
  const [approve, automations, grant] = [vi.fn(), vi.fn(), vi.fn()]
  const user = userEvent.setup()
  const page = render(<Page approve={approve} automations={automations} grant={grant} />)
  await user.keyboard('ga')
  expect([automations, approve, grant].map(each => each.mock.calls.length)).toEqual([1, 0, 0])
  await user.keyboard('a')
  expect(approve).toHaveBeenCalledTimes(1)
  await user.keyboard('g')
  await vi.waitFor(() => expect(grant).toHaveBeenCalledTimes(1))
  await user.type(page.getByLabelText('words'), 'aga')
  expect([approve, automations].map(each => each.mock.calls.length)).toEqual([1, 1])
})

test('keys are off while a dialog is open, wherever the focus is', async () => {
  const [approve, other] = [vi.fn(), vi.fn()]
  const user = userEvent.setup()
  render(<Page approve={approve} automations={other} grant={other} />)
  const dialog = document.body.appendChild(document.createElement('dialog'))
  dialog.setAttribute('open', '')
  await user.click(document.body)
  await user.keyboard('aga')
  dialog.remove()
  await user.click(document.body)
  await user.keyboard('a')
  expect([approve, other].map(each => each.mock.calls.length)).toEqual([1, 0])
})
