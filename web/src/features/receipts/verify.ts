// Verifies a receipt in this browser, with WebCrypto and nothing of the server but its public keys: the signature over the payload (DSSE),
// that the payload is a leaf of the log's tree (RFC 6962), and that the tree's root is signed (a C2SP checkpoint).
import type { Entry, Key, Proof } from '@/api/types'

export type Check = { name: string; ok: boolean; detail: string }

/** What a receipt's payload is; the log's key signs nothing else with it. */
const PAYLOAD_TYPE = 'application/vnd.countersign.receipt.v1+json'

const utf8 = new TextEncoder()

type Envelope = { payload: string; payloadType: string; signatures: { keyid?: string; sig: string }[] }
type Bytes = Uint8Array<ArrayBuffer>

export function fromBase64(text: string): Bytes {
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at)
  return bytes
}

export const fromHex = (text: string): Bytes => new Uint8Array((text.match(/../g) ?? []).map(pair => Number.parseInt(pair, 16)))
export const toHex = (bytes: Uint8Array): string => [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('')

export function joined(...parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

const sha256 = async (bytes: Bytes): Promise<Bytes> => new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))

const equal = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((byte, at) => byte === b[at])

/** What DSSE signs: the type and the payload, each with its length. */
export function preAuth(type: string, payload: Uint8Array): Bytes {
  const head = utf8.encode(`DSSEv1 ${utf8.encode(type).length} ${type} ${payload.length} `)
  return joined(head, payload)
}

async function fits(key: Key, message: Bytes, signature: Bytes): Promise<boolean> {
  const imported = await crypto.subtle.importKey('raw', fromBase64(key.public), { name: 'Ed25519' }, false, ['verify'])
  return crypto.subtle.verify({ name: 'Ed25519' }, imported, signature, message)
}

/** The root of the tree that a leaf and its audit path lead to (RFC 9162, 2.1.3.2); undefined if the path does not fit the size. */
export async function rootOf(leaf: Bytes, index: number, size: number, path: readonly Bytes[]): Promise<Bytes | undefined> {
  if (index >= size) return undefined
  let [at, last, root] = [index, size - 1, leaf]
  for (const hash of path) {
    if (last === 0) return undefined
    if (at % 2 === 1 || at === last) {
      root = await sha256(joined(Uint8Array.of(1), hash, root))
      while (at % 2 === 0 && at !== 0) {
        at = Math.floor(at / 2)
        last = Math.floor(last / 2)
      }
    } else root = await sha256(joined(Uint8Array.of(1), root, hash))
    at = Math.floor(at / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 ? root : undefined
}

export type Checkpoint = {
  origin: string
  size: number
  root: Bytes
  signed: Bytes
  signatures: { name: string; tag: Bytes; signature: Bytes }[]
}

export function parseCheckpoint(note: string): Checkpoint | undefined {
  const gap = note.indexOf('\n\n')
  const [origin, size, root, more] = note.slice(0, gap).split('\n')
  if (gap < 0 || !origin || !size || !root || more !== undefined || !/^(0|[1-9][0-9]{0,15})$/.test(size)) return undefined
  const signatures = note
    .slice(gap + 2)
    .split('\n')
    .filter(Boolean)
    .map(each => each.split(' '))
    .filter(([dash, name, data]) => dash === '—' && name && data)
    .map(([, name = '', data = '']) => ({ name, tag: fromBase64(data).slice(0, 4), signature: fromBase64(data).slice(4) }))
  return { origin, size: Number(size), root: fromBase64(root), signed: utf8.encode(note.slice(0, gap + 1)), signatures }
}

/** The key that signs the entry at this position, or a checkpoint of so many entries: the newest that has begun. */
export function keyAt(keys: readonly Key[], purpose: Key['purpose'], seq: number): Key | undefined {
  return keys.filter(key => key.purpose === purpose && key.starts_at_seq <= seq).sort((a, b) => b.starts_at_seq - a.starts_at_seq)[0]
}

/** Every check of the entry `shown` as the receipt `id`, by itself: a failed one says where it broke. */
export async function verify(id: string, shown: Entry, proof: Proof, keys: readonly Key[]): Promise<Check[]> {
  const checks: Check[] = []
  const check = (name: string, ok: boolean, detail: string) => {
    checks.push({ name, ok, detail })
    return ok
  }
  try {
    const envelope = proof.entry.envelope as unknown as Envelope
    const payload = fromBase64(envelope.payload)
    const told = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload)) as {
      entry: { seq: string; log: string; kind: string }
      body: { receipt_id?: string }
    }
    const seq = Number(told.entry.seq)
    const isShown =
      JSON.stringify(sorted(told)) === JSON.stringify(sorted(shown.payload)) && seq === shown.seq && told.entry.kind === shown.kind
    check('The text on this page is the text that was signed', isShown, isShown ? `entry ${seq} of ${told.entry.log}` : 'they differ')
    check('It is the receipt of this address', told.body.receipt_id === id, told.body.receipt_id ?? 'it is no receipt')

    const key = keyAt(keys, 'receipt', seq)
    const signature = envelope.signatures[0]
    const isSigned =
      !!key &&
      !!signature &&
      envelope.signatures.length === 1 &&
      envelope.payloadType === PAYLOAD_TYPE &&
      (await fits(key, preAuth(PAYLOAD_TYPE, payload), fromBase64(signature.sig)))
    check('It is signed by the log’s key', isSigned, named(key))

    const leaf = await sha256(joined(Uint8Array.of(0), payload))
    check(
      'Its hash is the leaf that the proof is about',
      toHex(leaf) === proof.leaf && proof.index === seq,
      `${toHex(leaf).slice(0, 16)}…, leaf ${proof.index}`,
    )

    const checkpoint = parseCheckpoint(proof.checkpoint)
    if (
      !check(
        'There is a checkpoint of this log',
        !!checkpoint && checkpoint.origin === `countersign/${told.entry.log}`,
        checkpoint?.origin ?? 'it cannot be read',
      ) ||
      !checkpoint
    )
      return checks
    const root = await rootOf(leaf, proof.index, checkpoint.size, proof.hashes.map(fromHex))
    check(
      'The leaf is in the tree of the checkpoint',
      !!root && equal(root, checkpoint.root),
      `${proof.hashes.length} hashes up to the root of ${checkpoint.size} entries`,
    )

    const signer = keyAt(keys, 'checkpoint', checkpoint.size)
    const isSealed = !!signer && (await sealed(checkpoint, signer))
    check('The checkpoint is signed by the log’s checkpoint key', isSealed, named(signer))
  } catch (cause) {
    check('It can be read', false, cause instanceof Error ? cause.message : String(cause))
  }
  return checks
}

const named = (key: Key | undefined): string =>
  key ? `Ed25519, key ${key.key_id}${key.revoked_at ? ', which was revoked later' : ''}` : 'there is no key for this position'

/** Whether the log's own signature of a checkpoint is of this key. */
async function sealed(checkpoint: Checkpoint, key: Key): Promise<boolean> {
  const tag = (await sha256(joined(utf8.encode(checkpoint.origin), Uint8Array.of(10, 1), fromBase64(key.public)))).slice(0, 4)
  const ours = checkpoint.signatures.filter(each => each.name === checkpoint.origin && equal(each.tag, tag))
  return ours.length > 0 && (await Promise.all(ours.map(each => fits(key, checkpoint.signed, each.signature)))).every(Boolean)
}

/** The same value with the keys of every object in order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  )
}

/** A copy of which one byte is another. */
export function tampered(proof: Proof): Proof {
  const envelope = proof.entry.envelope as unknown as Envelope
  const other = (_: string, before: string, letter: string) => before + (letter === 'x' ? 'y' : 'x')
  const text = atob(envelope.payload).replace(/("status":")(.)/, other)
  return { ...proof, entry: { ...proof.entry, envelope: { ...proof.entry.envelope, payload: btoa(text) } } }
}

/** Whether this browser can verify Ed25519 at all. */
export async function canVerify(): Promise<boolean> {
  try {
    await crypto.subtle.importKey('raw', new Uint8Array(32), { name: 'Ed25519' }, false, ['verify'])
    return true
  } catch {
    return false
  }
}
