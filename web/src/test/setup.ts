import { cleanup, configure } from '@testing-library/react'
import { afterEach, vi } from 'vitest'
import { forgetWord, noteLogin } from '@/api/client'

// Pages are loaded when they are first opened, which takes as long as the machine is busy.
configure({ asyncUtilTimeout: 20_000 })

// The files share what they load (`isolate: false`): no test leaves anything behind for the next.
afterEach(() => {
  cleanup()
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  localStorage.clear()
  sessionStorage.clear()
  forgetWord()
  noteLogin('in')
})
