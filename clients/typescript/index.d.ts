import type { components, paths } from "./api.js";
export type { components, paths } from "./api.js";
export type Schemas = components["schemas"];
type Method = "get" | "post" | "put" | "patch" | "delete";
/** The paths that have this method. */
type PathOf<M extends Method> = {
    [P in keyof paths]: paths[P] extends Record<M, object> ? P : never;
}[keyof paths];
type Operation<M extends Method, P extends keyof paths> = paths[P][M];
type Json<T> = T extends {
    content: {
        "application/json": infer Body;
    };
} ? Body : T extends {
    content: object;
} ? string : undefined;
type Answer<O> = O extends {
    responses: infer R;
} ? Json<R[keyof R & (200 | 201 | 202 | 204)]> : never;
type Body<O> = O extends {
    requestBody: {
        content: {
            "application/json": infer T;
        };
    };
} ? {
    body: T;
} : {
    body?: never;
};
type Input<O> = O extends {
    parameters: infer T extends {
        path?: unknown;
        query?: unknown;
    };
} ? Pick<T, "path" | "query"> & Body<O> : never;
type Rest<T> = {} extends T ? [input?: T] : [input: T];
/** The paths whose answers are pages. */
type Listed = {
    [P in PathOf<"get">]: Answer<Operation<"get", P>> extends {
        items: unknown[];
        next?: string | null;
    } ? P : never;
}[PathOf<"get">];
type Item<P extends Listed> = Answer<Operation<"get", P>> extends {
    items: (infer T)[];
} ? T : never;
/** What went wrong: branch on `code`, show `message` and `hint`. Every code has a page, `/docs/errors/{code}`. */
export declare class CountersignError extends Error {
    readonly code: string;
    readonly hint: string | undefined;
    name: string;
    constructor(code: string, detail: string, hint: string | undefined);
}
/** The server refused a request. */
export declare class RefusedError extends CountersignError {
    readonly status: number;
    /** The whole document; partial where something in between answered instead of the server. */
    readonly problem: Partial<Schemas["Problem"]>;
    name: string;
    /** Milliseconds to wait before trying again, where that helps. */
    readonly retryAfterMs: number | undefined;
    constructor(status: number, 
    /** The whole document; partial where something in between answered instead of the server. */
    problem: Partial<Schemas["Problem"]>);
}
/** A call did not succeed: it was denied, it failed, it is in doubt, or it still waits. `invocation.status` says which. */
export declare class NotSucceededError extends CountersignError {
    readonly invocation: Schemas["InvocationView"];
    name: string;
    constructor(invocation: Schemas["InvocationView"], hint?: string);
}
export declare class WebhookError extends CountersignError {
    name: string;
    constructor(detail: string);
}
export interface Patience {
    /** How long to wait for the call to end; until it has ended when absent. */
    timeoutMs?: number;
}
/** One person, agent or service: whoever the token is of. */
export declare class Countersign {
    #private;
    constructor(url: string, token: string);
    /** Any request of the API but its streams. Names in braces in the path are taken from `path`. */
    request<M extends Method, P extends PathOf<M>>(method: M, path: P, ...rest: Rest<Input<Operation<M, P>>>): Promise<Answer<Operation<M, P>>>;
    /** Every item of every page, asked for as they are needed. */
    iterate<P extends Listed>(path: P, ...rest: Rest<Input<Operation<"get", P>>>): AsyncGenerator<Item<P>, void, undefined>;
    /** Invokes an action and waits until it has been decided and done. Whatever else becomes of it is a `NotSucceededError`. */
    invoke(session: string, action: string, params?: Record<string, unknown>, { timeoutMs, ...more }?: Omit<Schemas["InvokeRequest"], "action" | "params"> & Patience): Promise<Schemas["InvokeResponse"]>;
    /** Waits until a call has been decided and done, or until the time is over: its status says which. A server may restart meanwhile. */
    wait(session: string, invocation: string, { timeoutMs }?: Patience): Promise<Schemas["InvokeResponse"]>;
}
/**
 * The message of a webhook, if its signature is one of this secret and it was sent within the last five minutes; otherwise a `WebhookError`.
 * `body` is what arrived, byte for byte. A message may arrive twice: its `webhook-id` is the same then.
 */
export declare function verifyWebhook(secret: string, headers: Headers | Record<string, string | string[] | undefined>, body: string | Uint8Array): Promise<any>;
