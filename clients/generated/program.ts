// An agent invokes an action, a person approves it, the agent waits for the outcome, and the person pages through the audit trail.
// `api.d.ts` is what openapi-typescript makes of the API's description.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Status = components["schemas"]["Status"];

function client(token: string) {
  const baseUrl = process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:7117";
  return createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } });
}

/** The JSON answer, or the problem as an error: branch on its `code`. A string would be a stream of events, which nobody asked for. */
function answer<T>(result: { data?: T; error?: unknown }): Exclude<T, string> {
  if (result.data === undefined || typeof result.data === "string") {
    const problem = result.error as components["schemas"]["Problem"];
    throw new Error(`${problem.code}: ${problem.detail} (${problem.hint ?? "no hint"})`);
  }
  return result.data as Exclude<T, string>;
}

const owner = client(process.env["COUNTERSIGN_TOKEN"] ?? "");
const session = answer(await owner.POST("/api/v1/sessions", { body: { title: "TypeScript client" } }));
const agent = client(session.token);

// Invoke: a write is pending until a person approves it.
const asked = answer(
  await agent.POST("/api/v1/sessions/{session}/actions/invoke", {
    params: { path: { session: session.id } },
    body: { action: "files.write_text", params: { path: "typescript.txt", text: "hello" }, reason: "to show how" },
  }),
);
assert(asked.invocation.status === "pending" && asked.message === "Action requires approval", "the call waits for approval");

// Approve: this call, and two more like it.
const invocation = asked.invocation.id;
const approved = answer(
  await owner.POST("/api/v1/invocations/{invocation}/approve", {
    params: { path: { invocation } },
    body: { mode: "grant", grant: { calls_max: 2 } },
  }),
);
assert(approved.grant?.state === "active", "the grant is in the answer");

// Wait: the answer is held back until the call has ended.
const ended = answer(
  await agent.GET("/api/v1/sessions/{session}/actions/invocations/{invocation}", {
    params: { path: { session: session.id, invocation }, query: { wait: "30s" } },
  }),
);
const status: Status = ended.invocation.status;
const completed = new Date(ended.invocation.completed_at ?? "");

// Page: `next` of one page is `after` of the following one.
let seen = 0;
let after: string | undefined;
do {
  const page = answer(await owner.GET("/api/v1/invocations", { params: { query: { limit: 1, count: true, ...(after ? { after } : {}) } } }));
  for (const item of page.items) {
    console.log(item.created_at, item.session_title, item.action, item.tier, item.status);
    seen += 1;
  }
  assert((page.total ?? 0) >= seen, "total counts every page");
  after = page.next ?? undefined;
} while (after !== undefined);

if (status !== "succeeded" || Number.isNaN(completed.getTime()) || seen === 0) {
  throw new Error(`${invocation} is ${status}`);
}
