// The one place that talks to the server. A request carries the login cookie of this browser, and the word that only a page of ours can
// read: a page of others can send the cookie, and not the word.
import createClient, { type Middleware } from 'openapi-fetch'
import { heard } from '@/lib/clock'
import type { paths } from '../../../clients/typescript/api'
import type { Problem } from './types'

export const CSRF_HEADER = 'x-countersign-csrf'

/** Why the server refused, or could not be reached. */
export class ApiError extends Error {
  readonly problem: Problem
  constructor(problem: Problem) {
    super(problem.detail)
    this.problem = problem
  }
  get code(): string {
    return this.problem.code
  }
}

/** An older word is asked for again before something is read, which extends the login: whoever uses a page stays logged in. */
const WORD_MS = 5 * 60_000

let word: Promise<string> | undefined
let askedAt = 0
let known = ''
let isOut = false
const listeners = new Set<() => void>()

/** Calls when this browser was found to be logged out, or to be logged in again, perhaps as somebody else. */
export function onLogin(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const isLoggedOut = (): boolean => isOut

/** What an answer of the server says of the login. */
export function noteLogin(found: 'in' | 'out'): void {
  if (found === 'out') forgetWord()
  if (isOut === (found === 'out')) return
  isOut = found === 'out'
  tell()
}

function tell(): void {
  for (const listener of listeners) listener()
}

/** The word of this login; asked for once, and again after the server refused it. */
function csrfWord(): Promise<string> {
  word ??= asked().catch(cause => {
    // Vite has no such page.
    if (import.meta.env.DEV) return ''
    forgetWord()
    throw cause
  })
  return word
}

async function asked(): Promise<string> {
  askedAt = Date.now()
  const response = await fetch('/login/word', { headers: { accept: 'application/json' } })
  if (!response.ok) throw new Error(`the server answered ${response.status}`)
  const got = ((await response.json()) as { word: string | null }).word ?? ''
  const isAnother = known !== '' && got !== '' && got !== known
  known = got
  if (isAnother) tell()
  return got
}

/** The word as it was last known, for a request that cannot wait. */
export const lastWord = (): string => known

/** What is sent with every request to the API. Where nobody is logged in, nothing is asked: the answer is known. */
export async function headers(): Promise<Record<string, string>> {
  const own = await csrfWord()
  if (own === '' && !import.meta.env.DEV) {
    noteLogin('out')
    throw new ApiError({ type: '', title: 'Not logged in', status: 401, code: 'unauthenticated', detail: 'nobody is logged in here' })
  }
  return { [CSRF_HEADER]: own }
}

export function forgetWord(): void {
  word = undefined
}

const sameOrigin: Middleware = {
  async onRequest({ request }) {
    if (request.method === 'GET' && Date.now() - askedAt > WORD_MS) forgetWord()
    for (const [name, value] of Object.entries(await headers())) request.headers.set(name, value)
    return request
  },
  async onResponse({ response }) {
    heard(response.headers.get('date'))
    if (response.status === 401) noteLogin('out')
    else if (response.ok) noteLogin('in')
    return response
  },
}

/**
 * Sends a request, and once more with another word if the browser has another login by now. SECURITY: what changes something is not sent again,
 * because the person who decided it may be another one than who is logged in now.
 */
async function send(request: Request): Promise<Response> {
  const response = await fetch(request)
  if (response.status !== 403) return response
  const problem: { code?: string } | undefined = await response
    .clone()
    .json()
    .catch(() => undefined)
  if (problem?.code !== 'login_changed') return response
  forgetWord()
  const again = await headers()
  if (request.method !== 'GET') return response
  for (const [name, value] of Object.entries(again)) request.headers.set(name, value)
  return fetch(request)
}

export const api = createClient<paths>({ baseUrl: '/', credentials: 'same-origin', fetch: send })
api.use(sameOrigin)

type Answer<T> = { data?: T; error?: unknown; response: Response }

/** The body of an answer, or an `ApiError`. */
export async function body<T>(answer: Promise<Answer<T>>): Promise<T> {
  let got: Answer<T>
  try {
    got = await answer
  } catch (cause) {
    if (cause instanceof ApiError) throw cause
    throw new ApiError(unreachable(String(cause)))
  }
  if (got.error === undefined && got.response.ok) return got.data as T
  throw new ApiError(isProblem(got.error) ? got.error : unreachable(`the server answered ${got.response.status}`, got.response.status))
}

function isProblem(value: unknown): value is Problem {
  return typeof value === 'object' && value !== null && 'code' in value && 'detail' in value
}

function unreachable(detail: string, status = 0): Problem {
  return {
    type: '',
    title: 'The server cannot be reached',
    status,
    code: 'internal',
    detail,
    hint: 'Nothing is known to have happened: look again before you repeat it.',
  }
}
