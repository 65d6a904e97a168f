import { expect, test } from 'vitest'
import { type Message, parser } from './sse'

test('messages are whole, however the bytes are cut', () => {
  const text = ': hello\n\nevent: invocation.held\ndata: {"a":\ndata: 1}\nid: 42\n\n:\nid: 43\n\ndata: x\r\n\r\n'
  for (const size of [1, 3, 7, 1000]) {
    const told: Message[] = []
    const ids: string[] = []
    const feed = parser(
      message => told.push(message),
      id => ids.push(id),
    )
    for (let at = 0; at < text.length; at += size) feed(text.slice(at, at + size))
    expect(told).toEqual([
      { event: 'invocation.held', data: '{"a":\n1}', id: '42' },
      { event: 'message', data: 'x', id: undefined },
    ])
    // An id without data moves the reader on.
    expect(ids).toEqual(['42', '43'])
  }
})
