// A proof that a server made, verified by the code of the page.
import { webcrypto } from 'node:crypto'
import { beforeAll, expect, test, vi } from 'vitest'
import type { Entry, Key, Proof } from '@/api/types'
import fixture from '@/test/fixtures/receipt.json'
import { stagesOf } from './model'
import { canVerify, fromBase64, joined, keyAt, parseCheckpoint, preAuth, rootOf, tampered, toHex, verify } from './verify'

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

/** A pair of keys that signs from `starts` on. */
async function pair(starts: number) {
  const make = async (purpose: Key['purpose']) => {
    const { publicKey, privateKey } = (await webcrypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])) as CryptoKeyPair
    const raw = new Uint8Array(await webcrypto.subtle.exportKey('raw', publicKey))
    const key = { ...(keys[0] as Key), purpose, key_id: `${purpose} ${starts}`, public: toBase64(raw), starts_at_seq: starts }
    return { key, raw, sign: async (text: Bytes) => new Uint8Array(await webcrypto.subtle.sign('Ed25519', privateKey, text)) }
  }
  return { receipt: await make('receipt'), checkpoint: await make('checkpoint') }
}

type Pair = Awaited<ReturnType<typeof pair>>
type Bytes = Uint8Array<ArrayBuffer>
const toBase64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes))
const sha256 = async (bytes: Bytes) => new Uint8Array(await webcrypto.subtle.digest('SHA-256', bytes))
const TYPE = 'application/vnd.countersign.receipt.v1+json'

/** A proof of the entry `seq` against a checkpoint of `size` entries. */
async function proved(seq: number, size: number, { receipt }: Pair, { checkpoint }: Pair, payloadType = TYPE): Promise<Proof> {
  const told = { ...entry.payload, entry: { ...(entry.payload.entry as object), seq: String(seq) } } as Entry['payload']
  const payload = new TextEncoder().encode(JSON.stringify(told))
  const envelope = {
    payload: toBase64(payload),
    payloadType,
    signatures: [{ keyid: receipt.key.key_id, sig: toBase64(await receipt.sign(preAuth(payloadType, payload))) }],
  }
  const leaf = await sha256(joined(Uint8Array.of(0), payload))
  // Whatever the other entries are: as many hashes as lead to a root.
  const hashes: Bytes[] = []
  let root = await rootOf(leaf, seq, size, hashes)
  while (!root) {
    hashes.push(new Uint8Array(32))
    root = await rootOf(leaf, seq, size, hashes)
  }
  const origin = `countersign/${(told.entry as { log: string }).log}`
  const text = new TextEncoder().encode(`${origin}\n${size}\n${toBase64(root)}\n`)
  const tag = (await sha256(joined(new TextEncoder().encode(origin), Uint8Array.of(10, 1), checkpoint.raw))).slice(0, 4)
  return {
    entry: { ...entry, seq, payload: told, envelope },
    leaf: toHex(leaf),
    index: seq,
    hashes: hashes.map(toHex),
    checkpoint: `${new TextDecoder().decode(text)}\n— ${origin} ${toBase64(joined(tag, await checkpoint.sign(text)))}\n`,
  }
}

test('after a rotation each key counts for what it could sign, whether the old one was retired or revoked', async () => {
  // The entry 4 names the new keys, which sign from the next on.
  const [old, now] = [await pair(0), await pair(5)]
  const [signed, sealed] = ['It is signed by the log’s key', 'The checkpoint is signed by the log’s checkpoint key']
  for (const revoked_at of [null, '2026-11-17T12:00:00Z']) {
    const ended = { retired_at: '2026-11-17T12:00:00Z', revoked_at }
    const all = [...[old.receipt, old.checkpoint].map(({ key }) => ({ ...key, ...ended })), now.receipt.key, now.checkpoint.key]
    for (const [seq, size, receipt, checkpoint, broken] of [
      [2, 4, old, old, []],
      [2, 5, old, now, []],
      [4, 5, old, now, []],
      [6, 8, now, now, []],
      [2, 5, old, old, [sealed]],
      [2, 4, old, now, [sealed]],
      [6, 8, old, now, [signed]],
      [6, 8, now, old, [sealed]],
      [2, 5, now, now, [signed]],
    ] as const) {
      const made = await proved(seq, size, receipt, checkpoint)
      expect(await failed(made, all, made.entry), `entry ${seq} of ${size}, ${receipt === old} ${checkpoint === old}`).toEqual(broken)
    }
  }
})

test('what the log’s key has signed as something else is no receipt', async () => {
  const own = await pair(0)
  const all = [own.receipt.key, own.checkpoint.key]
  for (const [type, broken] of [
    [TYPE, []],
    ['text/plain', ['It is signed by the log’s key']],
  ] as const) {
    const made = await proved(0, 1, own, own, type)
    expect(await failed(made, all, made.entry)).toEqual(broken)
  }
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
