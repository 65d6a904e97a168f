import { expect, test, vi } from 'vitest'
import type { Problem } from '@/api/types'
import { serve } from '@/test/server'

test('a session that has ended or is full is forgotten, and a new one is tried once', async () => {
  // Another file of tests may have left a session open.
  vi.resetModules()
  const { ApiError } = await import('@/api/client')
  const { inOwnSession } = await import('./own-session')
  let made = 0
  serve({
    'POST /api/v1/sessions': () => {
      made += 1
      return { id: `ses_${made}` }
    },
  })
  /** Which sessions are used for one call, and how it ended, if the first so many are refused. */
  const used = async (code: Problem['code'], refusals: number) => {
    const sessions: string[] = []
    const ended = await inOwnSession(async session => {
      sessions.push(session)
      if (sessions.length > refusals) return 'done'
      throw new ApiError({ type: '', title: '', status: 409, code, detail: '' })
    }).catch((cause: unknown) => (cause as InstanceType<typeof ApiError>).code)
    return [...sessions, ended]
  }
  expect(await used('session_ended', 0)).toEqual(['ses_1', 'done'])
  expect(await used('session_ended', 0)).toEqual(['ses_1', 'done'])
  expect(await used('session_ended', 1)).toEqual(['ses_1', 'ses_2', 'done'])
  expect(await used('too_many_pending', 1)).toEqual(['ses_2', 'ses_3', 'done'])
  expect(await used('unknown_session', 2)).toEqual(['ses_3', 'ses_4', 'unknown_session'])
  expect(await used('denied_by_policy', 1), 'it is not about the session').toEqual(['ses_4', 'denied_by_policy'])
  expect(await used('session_ended', 0)).toEqual(['ses_4', 'done'])
  // What is asked at the same time shares the new one.
  const both = await Promise.all([used('not_your_session', 1), used('not_your_session', 1)])
  expect(both).toEqual([
    ['ses_4', 'ses_5', 'done'],
    ['ses_4', 'ses_5', 'done'],
  ])
})
