import { expect, test } from 'vitest'
import { ApiError } from '@/api/client'
import type { Source } from '@/api/types'
import action from '@/test/fixtures/action.json'
import connection from '@/test/fixtures/connection.json'
import fixture from '@/test/fixtures/source.json'
import type { Connection } from '../secrets/queries'
import type { Package } from '../settings/queries'
import { draftOf, draftOfPreset, editOf, emptyDraft, isShown, missing, placeOfError, requestOf, rowsOf, testedSource, words } from './model'
import { PRESETS } from './presets'
import type { AddedSource } from './queries'

const source = fixture as AddedSource
const needsLogin = { ...connection, id: source.connection?.id, name: 'shop' } as Connection

test('each source has one row, with its health and what drifted', () => {
  const files = { id: 'files', title: 'Files', actions: [action] } as unknown as Source
  const pack = { id: 'kit', title: 'Kit', actions: [{ ...action, package_sha256: 'a' }] } as unknown as Source
  const rows = rowsOf([source], [], [{ ...files, id: 'shop' }, files, pack])
  expect(rows.map(row => [row.id, row.kind, row.health, row.actions, row.drifted])).toEqual([
    ['shop', 'http', 'answers', 4, 3],
    ['files', 'builtin', 'answers', 1, 0],
    ['kit', 'installed', 'answers', 1, 0],
  ])
  const installed = { name: 'kit', actions: [{ ...action, cannot_run: 'no code of packages' }] } as unknown as Package
  expect(rowsOf([], [], [pack], [installed])[0]).toMatchObject({ health: 'stuck', why: 'no code of packages' })
  expect(rows.filter(row => isShown(row, 'drifted'))).toHaveLength(1)
})

test('what is wrong first is the health of a source', () => {
  const health = (more: Partial<AddedSource>, connections: Connection[] = []) =>
    rowsOf([{ ...source, ...more }], connections, [])[0]?.health
  expect(health({})).toBe('answers')
  expect(health({}, [needsLogin])).toBe('needs_login')
  expect(health({ harvest: { ...source.harvest, error: 'gone' } })).toBe('away')
  expect(health({ harvest: { ...source.harvest, listed_at: null } })).toBe('never')
  expect(health({ paused: true }, [needsLogin])).toBe('paused')
  expect(health({ paused: true, removed_at: '2026-11-17T22:38:52Z' })).toBe('removed')
})

test('a command is words, and a quoted part is one', () => {
  expect(words('  node /opt/mcp/index.js  /stage ')).toEqual(['node', '/opt/mcp/index.js', '/stage'])
  expect(words(`run "two words" --name='it is' x"y z"`)).toEqual(['run', 'two words', '--name=it is', 'xy z'])
  expect(words('')).toEqual([])
})

test('only what its kind has is sent', () => {
  const draft = { ...emptyDraft, name: 'kit', connection: 'left over', url: 'left over', kind: 'program' as const, command: 'node a.js' }
  const env = [
    { key: 1, name: 'TOKEN', from: 'secret' as const, value: 'left over', secret: 'kit-token' },
    { key: 2, name: 'LEVEL', from: 'value' as const, value: 'warn', secret: 'left over' },
  ]
  expect(JSON.parse(JSON.stringify(requestOf({ ...draft, env })))).toEqual({
    name: 'kit',
    command: ['node', 'a.js'],
    env: [
      { name: 'TOKEN', secret: 'kit-token' },
      { name: 'LEVEL', value: 'warn' },
    ],
    trust_hints: false,
  })
  expect(missing({ ...draft, env: [{ key: 1, name: 'TOKEN', from: 'secret', value: '', secret: '' }] })).toContain('A variable')
  expect(missing({ ...draft, callSeconds: 'soon' })).toBe('A time is a number of seconds.')
})

test('an edit names only what changed, and the version that was seen', () => {
  const draft = draftOf(source)
  expect(editOf(source, draft)).toEqual({ version: 1 })
  expect(editOf(source, { ...draft, connection: '', trustHints: false, callSeconds: '5' })).toEqual({
    version: 1,
    connection: null,
    trust_hints: false,
    call_timeout_ms: 5_000,
  })
})

test('a refusal stands beside the field it is about', () => {
  const place = (code: string, error?: string) =>
    placeOfError(new ApiError({ type: '', title: '', status: 400, detail: '', code: code as 'internal', error }))
  expect(place('source_taken')).toBe('name')
  expect(place('host_not_allowed', 'host_not_allowed')).toBe('place')
  expect(place('command_not_allowed', 'command_not_allowed')).toBe('place')
  expect(place('source_failed', 'source_unauthorized')).toBe('connection')
  expect(place('source_unavailable', 'unreachable')).toBe('place')
  expect(place('connection_not_ready', 'connection_not_ready')).toBe('connection')
  expect(place('too_many_sources')).toBe('other')
})

test('a test says what it found', () => {
  expect(testedSource({ protocol: '2025-06-18', actions: 4, left_out: 1, took_ms: 31 }).text).toBe(
    'It answers in 31 ms and speaks MCP 2025-06-18: 4 actions, 1 left out.',
  )
  expect(testedSource({ actions: 0, left_out: 0, took_ms: 3, error: { code: 'source_unavailable', message: 'gone' } })).toMatchObject({
    isGood: false,
    text: 'gone',
  })
})

test('every preset fills the form so that it can be sent, and names are free of doubt', () => {
  for (const preset of PRESETS) {
    expect(missing(draftOfPreset(preset))).toBeUndefined()
    expect(preset.id).toMatch(/^[a-z][a-z0-9_-]{0,31}$/)
    expect(!preset.url).toBe(!!preset.command)
    if (preset.url) expect(new URL(preset.url).search).toBe('')
  }
  expect(new Set(PRESETS.map(preset => preset.id)).size).toBe(PRESETS.length)
})
