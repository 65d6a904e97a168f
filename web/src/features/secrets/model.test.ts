import { expect, test } from 'vitest'
import { connectionOf, emptyConnection, missing, safeUrl, testedConnection, valueOfFile } from './model'

const draft = { ...emptyConnection, name: 'shop ', url: ' https://mcp.example.com/mcp' }

test('a connection has only what its kind has', () => {
  expect(connectionOf({ ...draft, value: 't', account: 'left over', clientId: 'left over' })).toEqual({
    name: 'shop',
    kind: 'bearer',
    url: 'https://mcp.example.com/mcp',
    value: 't',
  })
  expect(connectionOf({ ...draft, kind: 'header', account: 'X-Api-Key', from: 'secret', secret: 'key', value: 'left over' })).toEqual({
    name: 'shop',
    kind: 'header',
    url: 'https://mcp.example.com/mcp',
    account: 'X-Api-Key',
    secret: 'key',
  })
  expect(connectionOf({ ...draft, kind: 'oauth', value: 'left over', scopes: ' read  write ' })).toEqual({
    name: 'shop',
    kind: 'oauth',
    url: 'https://mcp.example.com/mcp',
    scopes: ['read', 'write'],
  })
  expect(connectionOf({ ...draft, kind: 'oauth', clientId: 'c', value: 's' })).toMatchObject({ client_id: 'c', value: 's' })
})

test('what is missing is said', () => {
  expect(missing(emptyConnection)).toBe('It needs a name.')
  expect(missing(draft)).toBe('It needs a value.')
  expect(missing({ ...draft, from: 'secret' })).toBe('Choose a secret.')
  expect(missing({ ...draft, kind: 'basic', value: 'x' })).toBe('Name the user.')
  expect(missing({ ...draft, kind: 'oauth' })).toBeUndefined()
  expect(missing({ ...draft, kind: 'oauth', spaces: [] })).toBe('Choose at least one space.')
})

test('the answers of an address are told as what they mean', () => {
  expect(testedConnection({ status: 200, status_without: 401, is_let_in: true })).toEqual({
    isGood: true,
    text: 'The credential was taken: 200, and 401 without it.',
  })
  expect(testedConnection({ status: 401, status_without: null, is_let_in: false }).isGood).toBe(false)
  expect(testedConnection({ status: 200, status_without: 200, is_let_in: null }).text).toContain('Nobody checks a credential')
  expect(testedConnection({ status: 404, status_without: 404, is_let_in: null }).text).toContain('Nothing is known')
})

test('only an address of the web is opened', () => {
  expect(safeUrl('https://login.example.com/authorize?x=1')?.host).toBe('login.example.com')
  expect(safeUrl('javascript:alert(1)')).toBeUndefined()
  expect(safeUrl('nothing')).toBeUndefined()
})

test('the line break at the end of a file is no part of the value', () => {
  expect(valueOfFile('a\nb\n')).toBe('a\nb')
  expect(valueOfFile('a\r\n')).toBe('a')
  expect(valueOfFile('a\n\n')).toBe('a\n')
})
