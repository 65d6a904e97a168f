import { QueryObserver } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import { FreshQueryClient } from './query-client'

test('what changes while it is read for the first time is read once more', async () => {
  const client = new FreshQueryClient()
  const answers: ((status: string) => void)[] = []
  const queryFn = () => new Promise<string>(answer => answers.push(answer))
  const observer = new QueryObserver(client, { queryKey: ['run'], queryFn })
  const leave = observer.subscribe(() => {})
  const again = client.invalidateQueries({ queryKey: ['run'] })
  expect(answers).toHaveLength(1)
  // The server had answered just before the change.
  answers[0]?.('running')
  await expect.poll(() => answers.length).toBe(2)
  answers[1]?.('waiting')
  await again
  expect(observer.getCurrentResult().data).toBe('waiting')
  leave()
})

test('what could not be read is not asked for again', async () => {
  const client = new FreshQueryClient()
  let reads = 0
  const queryFn = async () => {
    reads += 1
    throw new Error('not there')
  }
  const leave = new QueryObserver(client, { queryKey: ['run'], queryFn, retry: false }).subscribe(() => {})
  await client.invalidateQueries({ queryKey: ['run'] })
  expect(reads).toBe(1)
  leave()
})
