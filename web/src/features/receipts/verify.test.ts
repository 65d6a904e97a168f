// A proof that a server made, verified by the code of the page.
import { webcrypto } from 'node:crypto'
import { beforeAll, expect, test, vi } from 'vitest'
import type { Entry, Key, Proof } from '@/api/types'
import fixture from '@/test/fixtures/receipt.json'
import { stagesOf } from './model'
import { canVerify, fromBase64, keyAt, parseCheckpoint, rootOf, tampered, verify } from './verify'

const proof = fixture.proof as unknown as Proof
const keys = fixture.keys as unknown as Key[]
const { entry } = proof
const failed = async (changed: Proof, with_ = keys, shown = entry, id = entry.id) =>
  (await verify(id, shown, changed, with_)).filter(check => !check.ok).map(check => check.name)

beforeAll(() => {
  vi.stubGlobal('crypto', webcrypto)
})

test('a receipt is verified from its signature to the signed root', async () => {
  expect(await canVerify()).toBe(true)
  expect(await verify(entry.id, entry, proof, keys)).toHaveLength(7)
  expect(await failed(proof)).toEqual([])
})

test('what was changed is found where it was changed', async () => {
  const changed = tampered(proof)
  const bytesOf = ({ entry }: Proof) => fromBase64((entry.envelope as { payload: string }).payload)
  const [before, after] = [bytesOf(proof), bytesOf(changed)]
  expect([after.length, after.filter((byte, at) => byte !== before[at]).length]).toEqual([before.length, 1])
  expect(await failed(changed)).toEqual([
    'The text on this page is the text that was signed',
    'It is signed by the log’s key',
    'Its hash is the leaf that the proof is about',
    'The leaf is in the tree of the checkpoint',
  ])
  expect(await failed({ ...proof, hashes: [...proof.hashes].reverse() })).toEqual(['The leaf is in the tree of the checkpoint'])
  expect(await failed({ ...proof, checkpoint: proof.checkpoint.replace('\n7\n', '\n8\n') })).toContain(
    'The checkpoint is signed by the log’s checkpoint key',
  )
  expect(await failed({ ...proof, checkpoint: 'nonsense' })).toEqual(['There is a checkpoint of this log'])
  const swapped = keys.map(key => ({ ...key, purpose: key.purpose === 'receipt' ? ('checkpoint' as const) : ('receipt' as const) }))
  expect(await failed(proof, swapped)).toEqual(['It is signed by the log’s key', 'The checkpoint is signed by the log’s checkpoint key'])
  expect(await failed(proof, [])).toHaveLength(2)
})

test('a receipt is another one if the page shows another text, or asked for another one', async () => {
  const body = entry.payload.body as object
  for (const shown of [
    { ...entry, payload: { ...entry.payload, body: { ...body, status: 'failed' } } },
    { ...entry, seq: entry.seq + 1 },
    { ...entry, kind: 'batch' as const },
  ])
    expect(await failed(proof, keys, shown)).toEqual(['The text on this page is the text that was signed'])
  expect(await failed(proof, keys, entry, 'rcp_other')).toEqual(['It is the receipt of this address'])
})

test('a path that is too long or too short leads to no root', async () => {
  const leaf = new Uint8Array(32)
  expect(await rootOf(leaf, 0, 1, [])).toEqual(leaf)
  expect(await rootOf(leaf, 0, 1, [leaf])).toBeUndefined()
  expect(await rootOf(leaf, 0, 2, [])).toBeUndefined()
  expect(await rootOf(leaf, 2, 2, [])).toBeUndefined()
})

test('the key of a position is the newest that had begun', () => {
  const key = (starts_at_seq: number) => ({ ...(keys[0] as Key), purpose: 'receipt' as const, starts_at_seq })
  expect(keyAt([key(0), key(10), key(5)], 'receipt', 7)?.starts_at_seq).toBe(5)
  expect(parseCheckpoint('a\n01\nAAAA\n\n')).toBeUndefined()
  expect(fromBase64('AQI=')).toEqual(Uint8Array.of(1, 2))
})

test('the timeline goes from the gates to the end', () => {
  const stages = stagesOf(fixture.entries as unknown as Entry[])
  expect(stages.map(stage => stage.name)).toEqual([
    'gate rbac',
    'gate space',
    'gate safety',
    'decided',
    'approved',
    'began',
    'verified',
    'succeeded',
  ])
})
