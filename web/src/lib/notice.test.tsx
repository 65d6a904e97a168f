// Notifications where the browser makes none.
import { act, renderHook } from '@testing-library/react'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

/** As on Chrome for Android: the permission is granted, and the constructor is illegal. */
class Illegal {
  static permission = 'granted'
  static requestPermission = async () => Illegal.permission
  constructor() {
    throw new TypeError("Failed to construct 'Notification': Illegal constructor.")
  }
}

beforeEach(() => {
  vi.resetModules()
  localStorage.clear()
  vi.stubGlobal('isSecureContext', true)
  vi.stubGlobal('Notification', Illegal)
})
afterEach(() => {
  vi.restoreAllMocks()
})

/** The hook twice, as the page has it: what counts, and the button. */
async function hooks() {
  const { useNotifications } = await import('./notice')
  const counting = renderHook((waiting: number) => useNotifications(waiting), { initialProps: 0 })
  return { counting, button: renderHook(() => useNotifications()) }
}
const kept = () => localStorage.getItem('notify')

test('whoever asks for them where none can be made reads so, and nothing is kept', async () => {
  const { button } = await hooks()
  expect(button.result.current.state).toBe('off')
  await act(() => button.result.current.ask())
  expect([button.result.current.state, kept()]).toEqual(['unsupported', null])
})

test('a page that was told to notify, and cannot, goes on', async () => {
  localStorage.setItem('notify', 'on')
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(true)
  const { counting, button } = await hooks()
  expect(button.result.current.state).toBe('on')
  counting.rerender(1)
  expect([counting.result.current.state, button.result.current.state, kept()]).toEqual(['unsupported', 'unsupported', null])
})
