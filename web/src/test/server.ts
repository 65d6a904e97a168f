// A server of a few lines for tests of pages: it answers what a page asks, and remembers what was asked.
import { vi } from 'vitest'
import type { Invocation } from '@/api/types'
import action from './fixtures/action.json'
import pending from './fixtures/pending.json'

type Asked = { method: string; path: string; body: unknown; headers: Headers }
/** One that takes its time is a promise. */
type Answer = (asked: Asked) => unknown

export const base = pending as unknown as Invocation
export const me = {
  org_id: 'org_x',
  principal: 'user:usr_x',
  name: 'ada',
  role: 'owner',
  permissions: ['read', 'approve', 'manage_policy'],
}

/** What an answer is if it is not 200. */
export class Refused {
  constructor(
    readonly status: number,
    readonly problem: object,
  ) {}
}

export function serve(answers: Record<string, Answer>) {
  const asked: Asked[] = []
  let tell: (text: string) => void = () => {}
  const all: Record<string, Answer> = {
    'GET /login/word': () => ({ word: 'w0rd' }),
    'GET /api/v1/stream': () => 'events',
    'GET /api/v1/whoami': () => me,
    'GET /api/v1/users': () => ({ items: [{ id: 'usr_x', name: 'Ada' }], next: null }),
    'GET /api/v1/kill-switches': () => ({ items: [], next: null }),
    'GET /api/v1/actions': () => ({ sources: [{ id: 'files', title: 'Files', actions: [action] }] }),
    'GET /api/v1/actions/files.write_text': () => action,
    ...answers,
  }
  vi.stubGlobal('fetch', async (input: Request | string, init?: RequestInit) => {
    const request = new Request(typeof input === 'string' ? new URL(input, 'http://localhost') : input, init)
    const url = new URL(request.url)
    const text = request.method === 'GET' ? '' : await request.text()
    const one = {
      method: request.method,
      path: url.pathname + url.search,
      body: text ? JSON.parse(text) : undefined,
      headers: request.headers,
    }
    asked.push(one)
    const answer =
      (await all[`${request.method} ${url.pathname}`]?.(one)) ??
      new Refused(404, { code: 'not_found', title: 'Not found', detail: 'nothing', type: '', status: 404 })
    if (url.pathname === '/api/v1/stream' && !(answer instanceof Refused)) {
      const stream = new ReadableStream<Uint8Array>({
        start(controller) {
          const encoder = new TextEncoder()
          init?.signal?.addEventListener('abort', () => controller.error(new Error('aborted')))
          tell = words => controller.enqueue(encoder.encode(words))
          tell('event: stream.opened\ndata: {}\nid: 1\n\n')
        },
      })
      return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
    }
    const [status, body] = answer instanceof Refused ? [answer.status, answer.problem] : [200, answer]
    return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } })
  })
  return {
    asked,
    tell: (text: string) => tell(text),
    event: (type: string, subject: string, cursor: number) =>
      tell(`event: ${type}\ndata: ${JSON.stringify({ specversion: '1.0', type, subject, data: {} })}\nid: ${cursor}\n\n`),
  }
}
