// An MCP server in the test's own process, of which the test can change a tool: `merge` and `refund` write, `wipe` says that it destroys.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { body } from '@/api/client'
import type { Server } from './server'

type Json = Record<string, unknown>

export type Upstream = Awaited<ReturnType<typeof upstream>>

export async function upstream() {
  const text = { type: 'string' }
  let merge: Json = { branch: text }
  const card = { title: 'Card', type: 'object', properties: { card: text }, required: ['card'] }
  const cash = { title: 'Cash', type: 'object', properties: { coins: { type: 'boolean' } }, required: ['coins'] }
  const refund: Json = {
    amount: { type: 'number', title: 'How much', description: 'In euros.', maximum: 1_000 },
    kind: { enum: ['whole', 'part'] },
    urgent: { type: 'boolean' },
    orders: { type: 'array', items: text },
    to: { type: 'object', title: 'Whom', properties: { name: text, city: text } },
    way: { oneOf: [card, cash] },
    more: {},
  }
  const calls: Json[] = []
  const tools = () => [
    { name: 'merge', description: 'Merges a branch.', inputSchema: { type: 'object', properties: merge, required: ['branch'] } },
    {
      name: 'refund',
      description: 'Pays an amount back.',
      inputSchema: { type: 'object', properties: refund, required: ['amount'] },
    },
    {
      name: 'wipe',
      description: 'Wipes a disk.',
      inputSchema: { type: 'object', properties: { disk: text }, required: ['disk'] },
      annotations: { destructiveHint: true },
    },
  ]
  const answer = ({ method, params }: { method?: string; params?: Json }): Json | undefined => {
    if (method === 'initialize')
      return { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'forge', version: '1' } }
    if (method === 'tools/list') return { tools: tools() }
    if (method !== 'tools/call') return undefined
    if (params) calls.push(params)
    return { content: [{ type: 'text', text: 'done' }] }
  }
  const http = createServer(async (request, response) => {
    let sent = ''
    for await (const chunk of request) sent += chunk
    const asked = (sent ? JSON.parse(sent) : {}) as { id?: unknown; method?: string; params?: Json }
    const result = answer(asked)
    // What became of it, nobody hears.
    if (asked.method === 'tools/call' && JSON.stringify(asked.params).includes('"unheard"')) return void request.socket.destroy()
    if (result) response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result }))
    else response.writeHead(asked.method?.startsWith('notifications/') ? 202 : asked.method ? 400 : 405).end()
  })
  await new Promise<void>(up => http.listen(0, '127.0.0.1', up))
  onTestFinished(() => {
    http.closeAllConnections()
    http.close()
  })
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  return {
    origin,
    /** The tools that were called, in order. */
    called: () => calls.map(call => String(call.name)),
    /** What the last call was given. */
    given: () => calls.at(-1)?.arguments,
    /** What the operator sets so that it may be reached. */
    settings: { COUNTERSIGN_SOURCE_ALLOWED_HOSTS: origin, COUNTERSIGN_SOURCE_ALLOWED_NETWORKS: '127.0.0.1/32' },
    /** Its tools become the actions `forge.merge`, which runs, and `forge.refund` and `forge.wipe`, which ask. */
    addTo: async (server: Server) => {
      const { owner } = server
      await body(owner.POST('/api/v1/sources', { body: { name: 'forge', title: 'The forge', url: `${origin}/mcp` } }))
      for (const [action, mode] of [
        ['forge.merge', 'allow'],
        ['forge.wipe', 'require_approval'],
      ] as const)
        await body(owner.PUT('/api/v1/modes/{action}', { params: { path: { action } }, body: { mode } }))
      // What is allowed runs unasked only with the consent of whoever the agent acts for.
      await body(owner.POST('/api/v1/consents', { body: { purpose: 'action:forge.merge' } }))
    },
    /** `merge` takes a further param from now on. */
    drift: async (server: Server) => {
      merge = { ...merge, bypass_checks: { type: 'boolean' } }
      await body(server.owner.POST('/api/v1/sources/{source}/refresh', { params: { path: { source: 'forge' } } }))
    },
  }
}
