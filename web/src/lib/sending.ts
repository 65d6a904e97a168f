// Something is sent once; what the server refuses stays on the screen.
import { useState } from 'react'
import { ApiError } from '@/api/client'

/** `busy` is the word of what is being sent, of several that could be. */
export function useSending<Word extends string = 'it'>() {
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState<Word>()
  const run = async (word: Word, act: () => Promise<void>): Promise<void> => {
    setBusy(word)
    setError(undefined)
    try {
      await act()
    } catch (cause) {
      if (cause instanceof ApiError) setError(cause)
      else throw cause
    } finally {
      setBusy(undefined)
    }
  }
  return { error, busy, run, clear: () => setError(undefined) }
}
