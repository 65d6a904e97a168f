/** The statuses of a call that goes on. Every call leaves them, at the latest when its time to be approved is over. */
const OPEN = ["pending", "approved", "running"];
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
    code;
    hint;
    name = "CountersignError";
    constructor(code, detail, hint) {
        super(`${code}: ${detail}`);
        this.code = code;
        this.hint = hint;
    }
}
/** The server refused a request. */
export class RefusedError extends CountersignError {
    status;
    problem;
    name = "RefusedError";
    /** Milliseconds to wait before trying again, where that helps. */
    retryAfterMs;
    constructor(status, 
    /** The whole document; partial where something in between answered instead of the server. */
    problem) {
        super(problem.code ?? "no_problem_document", problem.detail ?? `the answer was ${status}`, problem.hint ?? undefined);
        this.status = status;
        this.problem = problem;
        this.retryAfterMs = problem.retry_after_ms ?? undefined;
    }
}
/** A call did not succeed: it was denied, it failed, it is in doubt, or it still waits. `invocation.status` says which. */
export class NotSucceededError extends CountersignError {
    invocation;
    name = "NotSucceededError";
    constructor(invocation, hint) {
        super(invocation.error?.code ?? invocation.status, invocation.error?.message ?? `${invocation.id} is ${invocation.status}`, hint);
        this.invocation = invocation;
    }
}
export class WebhookError extends CountersignError {
    name = "WebhookError";
    constructor(detail) {
        super("webhook_invalid", detail, "answer it with 400, and do nothing it says");
    }
}
/** One person, agent or service: whoever the token is of. */
export class Countersign {
    #url;
    #token;
    constructor(url, token) {
        this.#url = url.replace(/\/+$/, "");
        this.#token = token;
    }
    /** Any request of the API but its streams. Names in braces in the path are taken from `path`. */
    async request(method, path, ...rest) {
        const input = (rest[0] ?? {});
        const filled = path.replace(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(input.path?.[name] ?? ""));
        const query = Object.entries(input.query ?? {}).flatMap(([name, value]) => (value === undefined || value === null ? [] : [[name, String(value)]]));
        const headers = { authorization: `Bearer ${this.#token}`, accept: "application/json" };
        if (input.body !== undefined)
            headers["content-type"] = "application/json";
        const response = await fetch(this.#url + filled + (query.length > 0 ? `?${new URLSearchParams(query)}` : ""), {
            method: method.toUpperCase(),
            headers,
            // A token is for the server it was given for, wherever that may point.
            redirect: "manual",
            ...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
        });
        const text = await response.text();
        const isJson = /^application\/(problem\+)?json\b/.test(response.headers.get("content-type") ?? "");
        if (!response.ok)
            throw new RefusedError(response.status, isJson ? JSON.parse(text) : {});
        return (isJson ? JSON.parse(text) : response.status === 204 ? undefined : text);
    }
    /** Every item of every page, asked for as they are needed. */
    async *iterate(path, ...rest) {
        const ask = this.request.bind(this);
        const input = (rest[0] ?? {});
        let after;
        do {
            const page = await ask("get", path, { ...input, query: { ...input.query, ...(after ? { after } : {}) } });
            yield* page.items;
            after = page.next;
        } while (after);
    }
    /** Invokes an action and waits until it has been decided and done. Whatever else becomes of it is a `NotSucceededError`. */
    async invoke(session, action, params = {}, { timeoutMs, ...more } = {}) {
        let answer;
        try {
            answer = await this.request("post", "/api/v1/sessions/{session}/actions/invoke", { path: { session }, body: { ...more, action, params } });
        }
        catch (error) {
            if (error instanceof RefusedError && error.problem.invocation)
                throw new NotSucceededError(error.problem.invocation, error.hint);
            throw error;
        }
        if (OPEN.includes(answer.invocation.status)) {
            answer = await this.wait(session, answer.invocation.id, timeoutMs === undefined ? {} : { timeoutMs });
        }
        if (answer.invocation.status !== "succeeded")
            throw new NotSucceededError(answer.invocation);
        return answer;
    }
    /** Waits until a call has been decided and done, or until the time is over: its status says which. A server may restart meanwhile. */
    async wait(session, invocation, { timeoutMs } = {}) {
        const until = timeoutMs === undefined ? Infinity : Date.now() + timeoutMs;
        for (let failures = 0;;) {
            const held = Math.max(1, Math.min(HELD_MS, Math.ceil(until - Date.now())));
            try {
                const path = "/api/v1/sessions/{session}/actions/invocations/{invocation}";
                const answer = await this.request("get", path, { path: { session, invocation }, query: { wait: `${held}ms` } });
                if (!OPEN.includes(answer.invocation.status) || Date.now() >= until)
                    return answer;
                failures = 0;
            }
            catch (error) {
                failures += 1;
                if (failures > FAILURES_MAX || (error instanceof RefusedError && error.status < 500))
                    throw error;
            }
            await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** Math.min(failures, 4)));
        }
    }
}
/**
 * The message of a webhook, if its signature is one of this secret and it was sent within the last five minutes; otherwise a `WebhookError`.
 * `body` is what arrived, byte for byte. A message may arrive twice: its `webhook-id` is the same then.
 */
export async function verifyWebhook(secret, headers, body) {
    const given = (name) => headers instanceof Headers ? headers.get(name) : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
    const [id, sent, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => String(given(name) ?? ""));
    if (!id || !signatures || !/^[0-9]{1,12}$/.test(sent ?? ""))
        throw new WebhookError("a header of the signature is missing");
    if (Math.abs(Date.now() / 1_000 - Number(sent)) > TOLERANCE_SECONDS)
        throw new WebhookError("it was sent at another time");
    const key = secret.startsWith("whsec_") ? decoded(secret.slice("whsec_".length)) : undefined;
    // Anyone can sign with an empty key.
    if (!key || key.length < 24)
        throw new TypeError("a secret is `whsec_` and at least 24 bytes in base64");
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const head = new TextEncoder().encode(`${id}.${sent}.`);
    const signed = new Uint8Array(head.length + bytes.length);
    signed.set(head);
    signed.set(bytes, head.length);
    const hmac = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures.split(" ")) {
        const bits = signature.startsWith("v1,") ? decoded(signature.slice("v1,".length)) : undefined;
        if (bits && (await crypto.subtle.verify("HMAC", hmac, bits, signed)))
            return JSON.parse(new TextDecoder().decode(bytes));
    }
    throw new WebhookError("no signature of it is one of this secret");
}
function decoded(base64) {
    try {
        return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    }
    catch {
        return undefined;
    }
}
