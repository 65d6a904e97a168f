// A write waits for a person, the person approves it, the agent gets the result, and the call has a receipt.
import { Countersign, NotSucceededError, RefusedError, type Schemas } from "countersign";

const url = process.env["COUNTERSIGN_URL"] ?? "";
const owner = new Countersign(url, process.env["COUNTERSIGN_TOKEN"] ?? "");

// A session is an agent's place to work in. Its token is the agent's own: it can invoke, and never approve.
const session = await owner.request("post", "/api/v1/sessions", { body: { title: "TypeScript" } });
const agent = new Countersign(url, session.token);

/** The next call of this agent that waits for a person. */
async function nextCall(): Promise<Schemas["InvocationView"]> {
  for (;;) {
    for await (const pending of owner.iterate("/api/v1/invocations", { query: { status: "pending", session: session.id } })) return pending;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const write = (path: string) => ({ path, text: "hello, world" });

// `invoke` returns when the call has been decided and done.
const asked = agent.invoke(session.id, "files.write_text", write("typescript.txt"), { reason: "to say hello" });
const pending = await nextCall();
console.log(pending.action, pending.params, pending.reason);
await owner.request("post", "/api/v1/invocations/{invocation}/approve", { path: { invocation: pending.id }, body: {} });
const done = await asked;
console.log(done.invocation.status, done.result);

// Reads are allowed at once.
const read = await agent.invoke(session.id, "files.read_text", { path: "typescript.txt" });
if ((read.result as { text: string }).text !== "hello, world") throw new Error("it was not written");

// Every call ends with one signed receipt.
const receipt = await owner.request("get", "/api/v1/receipts/{receipt}", { path: { receipt: done.invocation.receipt?.id ?? "" } });
console.log(receipt.id, receipt.kind);

// What does not succeed is an error, whether a rule or a person decided so.
const denied = agent.invoke(session.id, "files.write_text", write("other.txt")).catch((error: unknown) => error);
await owner.request("post", "/api/v1/invocations/{invocation}/deny", {
  path: { invocation: (await nextCall()).id },
  body: { reason: "not this one" },
});
const error = await denied;
if (!(error instanceof NotSucceededError)) throw new Error("it was denied");
console.log(error.message, error.invocation.denied_by);

// A request that the server refuses has a code, and a hint.
const refused = await agent.invoke(session.id, "files.write_txt").catch((error: unknown) => error);
if (!(refused instanceof RefusedError)) throw new Error("there is no such action");
console.log(refused.message, refused.hint, refused.problem.suggestions);
