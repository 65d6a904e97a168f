// A server for one journey: the real binary, on a free port, with nothing in its folder. It ends with the test.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import createClient from 'openapi-fetch'
import { onTestFinished } from 'vitest'
import { body } from '@/api/client'
import type { Invocation, Schemas } from '@/api/types'
import type { paths } from '../../clients/typescript/api'
import { program, until } from './program'

export const BINARY = resolve(process.env.COUNTERSIGN ?? join(process.env.CARGO_TARGET_DIR ?? '../target', 'debug/countersign'))

/** On a terminal, the address that logs the owner in. */
export const ONE_TIME_LINK = /sign in, once: (\S+)\r?\n/

export type Server = Awaited<ReturnType<typeof start>>
export type Agent = Awaited<ReturnType<Server['agent']>>
type Json = Record<string, unknown>

/** `settings` are variables of the server. On a `terminal` it prints the address that logs its owner in. */
export async function start({ settings = {}, terminal = false }: { settings?: Record<string, string>; terminal?: boolean } = {}) {
  const data = mkdtempSync(join(tmpdir(), 'countersign-e2e-'))
  const env = { ...process.env, COUNTERSIGN_INVOCATIONS_PER_MINUTE: '100000', ...settings }
  const launch = (listen: string) => program([BINARY, 'serve', '--data', data, '--listen', listen], { env, terminal })
  // Before the first program: what is registered last is done first.
  onTestFinished(() => rmSync(data, { recursive: true, force: true }))
  let running = launch('127.0.0.1:0')
  const up = async () => {
    await until(() => {
      if (running.hasEnded()) throw new Error(`the server did not start: ${running.printed()}`)
      return existsSync(join(data, 'server.url')) && existsSync(join(data, 'owner.token'))
    })
    return readFileSync(join(data, 'server.url'), 'utf8').trim()
  }
  const url = await up()
  const token = readFileSync(join(data, 'owner.token'), 'utf8').trim()
  const as = (bearer: string) => createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${bearer}` } })
  const owner = as(token)

  return {
    url,
    token,
    data,
    /** The API, as the owner. */
    owner,
    as,
    /** The address that logs the owner in, once. */
    oneTimeLink: () => running.says(ONE_TIME_LINK),
    /** An agent with a session of its own. */
    agent: async (title: string, more: { unattended?: boolean } = {}) => {
      const made = await body(owner.POST('/api/v1/sessions', { body: { title, ...more } }))
      const own = as(made.token)
      const params = { path: { session: made.id } }
      const call = async (action: string, given: Json, reason?: string): Promise<Invocation> => {
        const asked = own.POST('/api/v1/sessions/{session}/actions/invoke', { params, body: { action, params: given, reason } })
        return ((await body(asked)) as Schemas['InvokeResponse']).invocation
      }
      /** As the agent sees it. */
      const read = async (id: string): Promise<Invocation> =>
        (await body(own.GET('/api/v1/invocations/{invocation}', { params: { path: { invocation: id } } }))).invocation
      const ends = async (id: string): Promise<Invocation> => {
        let found = await read(id)
        await until(async () => {
          found = await read(id)
          return found.completed_at != null
        })
        return found
      }
      return { id: made.id, token: made.token, call, read, ends }
    },
    file: (name: string) => {
      const path = join(data, 'workspace', name)
      return existsSync(path) ? readFileSync(path, 'utf8') : undefined
    },
    stop: () => running.end('SIGTERM'),
    /** The same server again, at the same address. */
    again: async () => {
      rmSync(join(data, 'server.url'), { force: true })
      running = launch(new URL(url).host)
      await up()
    },
    /** Moves the deadline of a call: a test does not wait for five minutes. */
    expireIn: (id: string, seconds: number) =>
      execFileSync('python3', ['-c', MOVE_DEADLINE, join(data, 'countersign.db'), id, String(Date.now() / 1000 + seconds)]),
  }
}

const MOVE_DEADLINE = `
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=10) as db:
    db.execute('update invocations set expires_at = ? where id = ?', (int(float(sys.argv[3]) * 1e6), sys.argv[2]))
`
