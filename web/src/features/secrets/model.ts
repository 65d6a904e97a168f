// From what a person types to a connection, and from the answers about it to words.
import type { Schemas } from '@/api/types'
import type { Told } from '@/components/field'
import type { Connection } from './queries'

type Kind = Schemas['ConnectionKind']

export const KINDS: Record<Kind, string> = {
  oauth: 'Log in with OAuth',
  bearer: 'Token',
  header: 'Token in a header of its own',
  basic: 'Name and password',
  smtp: 'Mail server',
}

/** A connection as it is typed. `secret` names a secret that has the value; else `value` is it. */
export type ConnectionDraft = {
  name: string
  kind: Kind
  url: string
  account: string
  from: 'value' | 'secret'
  value: string
  secret: string
  clientId: string
  scopes: string
  spaces: string[] | null
}

export const emptyConnection: ConnectionDraft = {
  name: '',
  kind: 'bearer',
  url: '',
  account: '',
  from: 'value',
  value: '',
  secret: '',
  clientId: '',
  scopes: '',
  spaces: null,
}

/** What is still missing, in words; undefined if nothing is. */
export function missing(draft: ConnectionDraft): string | undefined {
  if (!draft.name.trim()) return 'It needs a name.'
  if (!draft.url.trim()) return 'It needs an address.'
  if (draft.kind === 'header' && !draft.account.trim()) return 'Name the header.'
  if (draft.kind === 'basic' && !draft.account.trim()) return 'Name the user.'
  if (draft.spaces?.length === 0) return 'Choose at least one space.'
  if (draft.kind === 'oauth') return undefined
  if (draft.from === 'secret') return draft.secret ? undefined : 'Choose a secret.'
  return draft.value ? undefined : 'It needs a value.'
}

/** Only what its kind has: the server refuses what it has not. */
export function connectionOf(draft: ConnectionDraft): Schemas['NewConnectionRequest'] {
  const { name, kind, url, account, from, value, secret, clientId, scopes, spaces } = draft
  const common = { name: name.trim(), kind, url: url.trim(), spaces: spaces ?? undefined }
  if (kind === 'oauth') {
    const words = scopes.split(/\s+/).filter(Boolean)
    const client = clientId.trim() ? { client_id: clientId.trim(), value: value || undefined } : {}
    return { ...common, ...client, scopes: words.length > 0 ? words : undefined }
  }
  const credential = from === 'secret' ? { secret } : { value }
  return { ...common, ...credential, account: kind === 'bearer' ? undefined : account.trim() }
}

/** What the answers of an address say of a credential. */
export function testedConnection({ status, status_without: without, is_let_in }: Schemas['ConnectionTestResponse']): Told {
  const other = without == null ? '' : `, and ${without} without it`
  if (is_let_in === true) return { isGood: true, text: `The credential was taken: ${status}${other}.` }
  if (is_let_in === false) return { isGood: false, text: `The credential was refused: ${status}.` }
  const isOpen = status < 300 && without != null && without < 300
  return {
    isGood: null,
    text: isOpen
      ? `Nobody checks a credential at this address: ${status} with it and without it.`
      : `Nothing is known about the credential: the address answers ${status}${other}.`,
  }
}

export const STATES: Record<Connection['state'], { word: string; tone: string }> = {
  ready: { word: 'ready', tone: 'text-ok' },
  needs_login: { word: 'needs a login', tone: 'text-warn' },
  revoked: { word: 'removed', tone: 'text-muted-fg' },
}

/** An address that may be opened. What an authorization server says of itself could be anything. */
export function safeUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url && (url.protocol === 'https:' || url.protocol === 'http:') ? url : undefined
}

/** The text of a file as a value: the line break at its end is no part of it, as at the command line. */
export const valueOfFile = (text: string): string => text.replace(/\r?\n$/, '')

/** The name of a secret or connection, as far as a page can tell. */
export const NAME = '[A-Za-z0-9][A-Za-z0-9_.\\-]{0,63}'
