import { act, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ToastProvider, useToasts } from './toasts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function Sayer() {
  const { say } = useToasts()
  return (
    <>
      <button type="button" onClick={() => say('done')}>
        say
      </button>
      <button type="button" onClick={() => say('not sent', { hint: 'try it again', stays: true })}>
        fail
      </button>
    </>
  )
}

test('what stays is there until it is dismissed, whatever else is said', () => {
  render(
    <ToastProvider>
      <Sayer />
    </ToastProvider>,
  )
  fireEvent.click(screen.getByText('fail'))
  for (let count = 0; count < 6; count += 1) fireEvent.click(screen.getByText('say'))
  expect(screen.getAllByText('done')).toHaveLength(4)
  act(() => void vi.advanceTimersByTime(3_600_000))
  expect(screen.queryByText('done')).toBeNull()
  expect(screen.getByText('not sent').textContent).toContain('try it again')
  fireEvent.click(screen.getByRole('button', { name: 'Dismiss' }))
  expect(screen.queryByText('not sent')).toBeNull()
})
