// Countersign over HTTP, typed by what openapi-typescript makes of the API's description. It needs nothing but `fetch` and Web Crypto.
import type { components, paths } from "./api.js";

export type { components, paths } from "./api.js";
export type Schemas = components["schemas"];

type Method = "get" | "post" | "put" | "patch" | "delete";
/** The paths that have this method. */
type PathOf<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];
type Operation<M extends Method, P extends keyof paths> = paths[P][M];
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : T extends { content: object } ? string : undefined;
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202 | 204)]> : never;
type Body<O> = O extends { requestBody: { content: { "application/json": infer T } } } ? { body: T } : { body?: never };
type Input<O> = O extends { parameters: infer T extends { path?: unknown; query?: unknown } } ? Pick<T, "path" | "query"> & Body<O> : never;
type Rest<T> = {} extends T ? [input?: T] : [input: T];
/** The paths whose answers are pages. */
type Listed = { [P in PathOf<"get">]: Answer<Operation<"get", P>> extends { items: unknown[]; next?: string | null } ? P : never }[PathOf<"get">];
type Item<P extends Listed> = Answer<Operation<"get", P>> extends { items: (infer T)[] } ? T : never;

/** The statuses of a call that goes on. Every call leaves them, at the latest when its time to be approved is over. */
const OPEN: readonly Schemas["Status"][] = ["pending", "approved", "running"];
/** How long the server holds one request open. */
const HELD_MS = 30_000;
/** The shortest time between two requests of one wait. */
const PAUSE_MS = 250;
/** Failed requests in a row before a wait gives up. A server that restarts is back by then. */
const FAILURES_MAX = 8;
/** How much the clocks of both sides of a webhook may differ. */
const TOLERANCE_SECONDS = 300;

/** What went wrong: branch on `code`, show `message` and `hint`. Every code has a page, `/docs/errors/{code}`. */
export class CountersignError extends Error {
  override name = "CountersignError";
  constructor(
    readonly code: string,
    detail: string,
    readonly hint: string | undefined,
  ) {
    super(`${code}: ${detail}`);
  }
}

/** The server refused a request. */
export class RefusedError extends CountersignError {
  override name = "RefusedError";
  /** Milliseconds to wait before trying again, where that helps. */
  readonly retryAfterMs: number | undefined;
  constructor(
    readonly status: number,
    /** The whole document; partial where something in between answered instead of the server. */
    readonly problem: Partial<Schemas["Problem"]>,
  ) {
    super(problem.code ?? "no_problem_document", problem.detail ?? `the answer was ${status}`, problem.hint ?? undefined);
    this.retryAfterMs = problem.retry_after_ms ?? undefined;
  }
}

/** A call did not succeed: it was denied, it failed, it is in doubt, or it still waits. `invocation.status` says which. */
export class NotSucceededError extends CountersignError {
  override name = "NotSucceededError";
  constructor(
    readonly invocation: Schemas["InvocationView"],
    hint?: string,
  ) {
    super(invocation.error?.code ?? invocation.status, invocation.error?.message ?? `${invocation.id} is ${invocation.status}`, hint);
  }
}

export class WebhookError extends CountersignError {
  override name = "WebhookError";
  constructor(detail: string) {
    super("webhook_invalid", detail, "answer it with 400, and do nothing it says");
  }
}

export interface Patience {
  /** How long to wait for the call to end; until it has ended when absent. */
  timeoutMs?: number;
}

/** One person, agent or service: whoever the token is of. */
export class Countersign {
  readonly #url: string;
  readonly #token: string;

  constructor(url: string, token: string) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
  }

  /** Any request of the API but its streams. Names in braces in the path are taken from `path`. */
  async request<M extends Method, P extends PathOf<M>>(method: M, path: P, ...rest: Rest<Input<Operation<M, P>>>): Promise<Answer<Operation<M, P>>> {
    const input = (rest[0] ?? {}) as { path?: Record<string, string>; query?: Record<string, unknown>; body?: unknown };
    const filled = path.replace(/\{([^}]+)\}/g, (_, name: string) => encodeURIComponent(input.path?.[name] ?? ""));
    const query = Object.entries(input.query ?? {}).flatMap(([name, value]) => (value === undefined || value === null ? [] : [[name, String(value)]]));
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}`, accept: "application/json" };
    if (input.body !== undefined) headers["content-type"] = "application/json";
    const response = await fetch(this.#url + filled + (query.length > 0 ? `?${new URLSearchParams(query)}` : ""), {
      method: method.toUpperCase(),
      headers,
      // A token is for the server it was given for, wherever that may point.
      redirect: "manual",
      ...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
    });
    const text = await response.text();
    const isJson = /^application\/(problem\+)?json\b/.test(response.headers.get("content-type") ?? "");
    if (!response.ok) throw new RefusedError(response.status, isJson ? JSON.parse(text) : {});
    return (isJson ? JSON.parse(text) : response.status === 204 ? undefined : text) as Answer<Operation<M, P>>;
  }

  /** Every item of every page, asked for as they are needed. */
  async *iterate<P extends Listed>(path: P, ...rest: Rest<Input<Operation<"get", P>>>): AsyncGenerator<Item<P>, void, undefined> {
    const ask = this.request.bind(this) as (method: "get", path: P, input: object) => Promise<{ items: Item<P>[]; next?: string | null }>;
    const input = (rest[0] ?? {}) as { query?: object };
    let after: string | null | undefined;
    do {
      const page = await ask("get", path, { ...input, query: { ...input.query, ...(after ? { after } : {}) } });
      yield* page.items;
      after = page.next;
    } while (after);
  }

  /** Invokes an action and waits until it has been decided and done. Whatever else becomes of it is a `NotSucceededError`. */
  async invoke(
    session: string,
    action: string,
    params: Record<string, unknown> = {},
    { timeoutMs, ...more }: Omit<Schemas["InvokeRequest"], "action" | "params"> & Patience = {},
  ): Promise<Schemas["InvokeResponse"]> {
    let answer: Schemas["InvokeResponse"];
    try {
      answer = await this.request("post", "/api/v1/sessions/{session}/actions/invoke", { path: { session }, body: { ...more, action, params } });
    } catch (error) {
      if (error instanceof RefusedError && error.problem.invocation) throw new NotSucceededError(error.problem.invocation, error.hint);
      throw error;
    }
    if (OPEN.includes(answer.invocation.status)) {
      answer = await this.wait(session, answer.invocation.id, timeoutMs === undefined ? {} : { timeoutMs });
    }
    if (answer.invocation.status !== "succeeded") throw new NotSucceededError(answer.invocation);
    return answer;
  }

  /** Waits until a call has been decided and done, or until the time is over: its status says which. A server may restart meanwhile. */
  async wait(session: string, invocation: string, { timeoutMs }: Patience = {}): Promise<Schemas["InvokeResponse"]> {
    const until = timeoutMs === undefined ? Infinity : Date.now() + timeoutMs;
    for (let failures = 0; ; ) {
      const held = Math.max(1, Math.min(HELD_MS, Math.ceil(until - Date.now())));
      try {
        const path = "/api/v1/sessions/{session}/actions/invocations/{invocation}";
        const answer = await this.request("get", path, { path: { session, invocation }, query: { wait: `${held}ms` } });
        if (!OPEN.includes(answer.invocation.status) || Date.now() >= until) return answer;
        failures = 0;
      } catch (error) {
        failures += 1;
        if (failures > FAILURES_MAX || (error instanceof RefusedError && error.status < 500)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** Math.min(failures, 4)));
    }
  }
}

/**
 * The message of a webhook, if its signature is one of this secret and it was sent within the last five minutes; otherwise a `WebhookError`.
 * `body` is what arrived, byte for byte. A message may arrive twice: its `webhook-id` is the same then.
 */
export async function verifyWebhook(
  secret: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string | Uint8Array,
): Promise<any> {
  const given = (name: string) =>
    headers instanceof Headers ? headers.get(name) : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  const [id, sent, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => String(given(name) ?? ""));
  if (!id || !signatures || !/^[0-9]{1,12}$/.test(sent ?? "")) throw new WebhookError("a header of the signature is missing");
  if (Math.abs(Date.now() / 1_000 - Number(sent)) > TOLERANCE_SECONDS) throw new WebhookError("it was sent at another time");
  const key = secret.startsWith("whsec_") ? decoded(secret.slice("whsec_".length)) : undefined;
  // Anyone can sign with an empty key.
  if (!key || key.length < 24) throw new TypeError("a secret is `whsec_` and at least 24 bytes in base64");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(`${id}.${sent}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  const hmac = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  for (const signature of signatures.split(" ")) {
    const bits = signature.startsWith("v1,") ? decoded(signature.slice("v1,".length)) : undefined;
    if (bits && (await crypto.subtle.verify("HMAC", hmac, bits, signed))) return JSON.parse(new TextDecoder().decode(bytes));
  }
  throw new WebhookError("no signature of it is one of this secret");
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}
