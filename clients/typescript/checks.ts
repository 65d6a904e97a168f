// What the journey does not show: webhooks that must not be believed, pages, patience, a server that is away for a moment, and redirects.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Countersign, NotSucceededError, RefusedError, WebhookError, verifyWebhook } from "countersign";

const url = process.env["COUNTERSIGN_URL"] ?? "";
const owner = new Countersign(url, process.env["COUNTERSIGN_TOKEN"] ?? "");
const session = await owner.request("post", "/api/v1/sessions", { body: { title: "TypeScript checks" } });
const agent = new Countersign(url, session.token);
const action = "files.write_text";
const params = { path: "checks.txt", text: "hello" };

// The example of the reference libraries of Standard Webhooks.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const sent = 1614265330;
const body = '{"test": 2432232314}';
const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const headers = { "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": String(sent), "webhook-signature": signature };

async function verified(change: { headers?: object; body?: string | Uint8Array; now?: number; secret?: string } = {}): Promise<unknown> {
  const clock = Date.now;
  Date.now = () => (change.now ?? sent) * 1_000;
  try {
    return await verifyWebhook(change.secret ?? secret, { ...headers, ...change.headers }, change.body ?? body);
  } finally {
    Date.now = clock;
  }
}

assert.deepEqual(await verified(), { test: 2432232314 });
assert.deepEqual(await verified({ now: sent + 299, body: new TextEncoder().encode(body) }), { test: 2432232314 });
assert(await verified({ headers: { "webhook-signature": `v1a,AAAA v1,AAAA ${signature}` } }));
const forged = [
  { body: '{"test": 2432232315}' },
  { now: sent + 301 },
  { now: sent - 301 },
  { secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" },
  { headers: { "Webhook-Id": "msg_other" } },
  { headers: { "Webhook-Id": undefined } },
  ...["", "soon", String(sent + 1), "-1", "9".repeat(13)].map((sent) => ({ headers: { "webhook-timestamp": sent } })),
  ...["", "v1,", signature.slice(0, -5), signature.slice(3), `v2,${signature.slice(3)}`, "v1,é"].map((signature) => ({
    headers: { "webhook-signature": signature },
  })),
];
for (const one of forged) await assert.rejects(verified(one), WebhookError, JSON.stringify(one));
for (const wrong of ["", "whsec_", "whsec_c2hvcnQ=", "whsec_%", secret.slice("whsec_".length)]) {
  await assert.rejects(verified({ secret: wrong }), TypeError, wrong);
}

/** The error of what must fail. */
async function failure<T extends Error>(of: Promise<unknown>, kind: new (...args: never[]) => T): Promise<T> {
  const error = await of.catch((error: unknown) => error);
  assert(error instanceof kind, String(error));
  return error;
}

// Patience that ends leaves the call as it is.
const pending: string[] = [];
for (let call = 0; call < 2; call += 1) {
  const error = await failure(agent.invoke(session.id, action, params, { timeoutMs: 0 }), NotSucceededError);
  assert.deepEqual([error.code, error.invocation.status], ["pending", "pending"]);
  pending.unshift(error.invocation.id);
}

// Every page is asked for.
const listed: string[] = [];
for await (const one of owner.iterate("/api/v1/invocations", { query: { session: session.id, limit: 1, count: true } })) listed.push(one.id);
assert.deepEqual(listed, pending);

// A wait goes on when the server was away. What the server refuses ends it at once.
const invocation = pending[0] ?? "";
await owner.request("post", "/api/v1/invocations/{invocation}/deny", { path: { invocation }, body: {} });
const real = globalThis.fetch;
let asked = 0;
globalThis.fetch = (...args) => ((asked += 1) < 3 ? Promise.reject(new TypeError("away")) : real(...args));
assert.equal((await agent.wait(session.id, invocation)).invocation.status, "denied");
assert.equal(asked, 3);
const unknown = await failure(agent.wait(session.id, "inv_00000000000000000000000000"), RefusedError);
assert.deepEqual([unknown.status, unknown.code, asked], [404, "not_found", 4]);
globalThis.fetch = real;

// A call that a rule denies is told as one that a person denies.
await owner.request("put", "/api/v1/modes/{action}", { path: { action }, body: { mode: "deny" } });
const denied = await failure(agent.invoke(session.id, action, params), NotSucceededError);
await owner.request("delete", "/api/v1/modes/{action}", { path: { action } });
assert.deepEqual([denied.invocation.status, denied.code], ["denied", "denied_by_mode"]);
assert(denied.hint);

// The token is not carried elsewhere, and what no server of ours answers is an error, too.
const reached: (string | undefined)[] = [];
const elsewhere = createServer((request, response) => {
  reached.push(request.url);
  response.writeHead(302, { location: "/elsewhere" }).end();
});
await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
const { port } = elsewhere.address() as AddressInfo;
const moved = await failure(new Countersign(`http://127.0.0.1:${port}`, "token").request("get", "/api/v1/whoami"), RefusedError);
assert.deepEqual([moved.status, moved.code, reached], [302, "no_problem_document", ["/api/v1/whoami"]]);
elsewhere.closeAllConnections();
elsewhere.close();
