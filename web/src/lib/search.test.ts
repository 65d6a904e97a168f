import { expect, test } from 'vitest'
import { found, placeOfId } from './search'

test('the start of a name counts most, then the start of a word', () => {
  const names = ['http.get', 'files.get', 'getter', 'budget', 'other']
  expect(found(names, 'get', name => name, 10)).toEqual(['getter', 'http.get', 'files.get', 'budget'])
  expect(found(names, 'fi get', name => name, 10)).toEqual(['files.get'])
  expect(found(names, '', name => name, 2)).toEqual(['http.get', 'files.get'])
})

test('a pasted id leads to its page', () => {
  expect(placeOfId(' inv_01m7 ')).toEqual({ to: '/', call: 'inv_01m7' })
  expect(placeOfId('rcp_01m7')).toEqual({ to: '/receipts/$receipt', receipt: 'rcp_01m7' })
  expect(placeOfId('inv_"><script>')).toBeUndefined()
})
