// client.mjs old|new http|stdio [expired]: an agent with the official TypeScript SDK lists, calls, waits for a person, gives up and asks again. `old` is
// `@modelcontextprotocol/sdk`, which speaks 2025-11-25; `new` is `@modelcontextprotocol/client`, with 2026-07-28. The person is the owner over HTTP.
//
// The SDK gives up after 60 seconds unless its option `timeout` says otherwise. Here it says 2 seconds where a client is to give up, so that
// nobody waits for it, and much more where it is to wait.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const [, , age, way, expired] = process.argv;
const { COUNTERSIGN, COUNTERSIGN_URL: url, COUNTERSIGN_TOKEN: owner } = process.env;
const GIVES_UP = { timeout: 2_000 };
const WAITS = { timeout: 400_000 };

const sdk =
  age === "old"
    ? {
        ...(await import("@modelcontextprotocol/sdk/client/index.js")),
        ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
        ...(await import("@modelcontextprotocol/sdk/client/stdio.js")),
      }
    : { ...(await import("@modelcontextprotocol/client")), ...(await import("@modelcontextprotocol/client/stdio")) };

async function ask(method, path, body) {
  const headers = { authorization: `Bearer ${owner}`, "content-type": "application/json" };
  const response = await fetch(`${url}/api/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
  const answer = await response.json();
  assert(response.ok, JSON.stringify(answer));
  return answer;
}

const session = await ask("POST", "sessions", { title: `${age} TypeScript over ${way}` });

// The client waits as long as it says, and gets no reference before.
async function connect(options = {}) {
  const client = new sdk.Client(
    { name: "door-test", version: "1" },
    { ...(age === "new" && { versionNegotiation: { mode: "auto" } }), ...options },
  );
  const transport =
    way === "http"
      ? new sdk.StreamableHTTPClientTransport(new URL(`${url}/mcp?hold=600`), {
          requestInit: { headers: { authorization: `Bearer ${session.token}` } },
        })
      : new sdk.StdioClientTransport({
          command: COUNTERSIGN,
          args: ["mcp", "--hold", "600"],
          env: { COUNTERSIGN_URL: url, COUNTERSIGN_TOKEN: session.token, HOME: process.env.HOME ?? "/" },
        });
  await client.connect(transport);
  return client;
}

const calls = async (status) => (await ask("GET", `invocations?session=${session.id}&limit=100${status ? `&status=${status}` : ""}`)).items;

// Waits for what somebody else does, for which there is nothing to wait on.
async function until(what, isSo) {
  for (let tries = 0; tries < 500; tries += 1) {
    const found = await isSo();
    if (found) return found;
    await sleep(20);
  }
  throw new Error(`it never happened: ${what}`);
}

const pending = (count = 1) => until(`${count} pending`, async () => ((found) => found.length === count && found)(await calls("pending")));
const shown = async (id) => (await ask("GET", `invocations/${id}`)).invocation;
const left = (id) => until("its caller has left", async () => (await shown(id)).caller_left);
const approve = (id) => ask("POST", `invocations/${id}/approve`, {});
const text = (result) => result.content.map((block) => block.text ?? "").join("\n");
const write = (client, name, options = WAITS) =>
  client.callTool({ name: "files.write_text", arguments: { path: `${age}-${way}-${name}.txt`, text: name } }, ...(age === "old" ? [undefined, options] : [options]));
const id = (result) => result._meta["countersign/invocation"];

let changes = 0;
const client = await connect({ listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => (changes += 1) } } });

if (age === "new") assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");

// Nobody answers in time. That takes five minutes, so it is tried by itself.
if (expired) {
  const late = await write(client, "expired");
  assert(late.isError && text(late).startsWith("Expired:"), text(late));
  await client.close();
  process.exit(0);
}

// It lists, and calls what needs nobody.
const { tools } = await client.listTools();
assert(tools.some((tool) => tool.name === "files.write_text"), "the catalogue is listed");
const looked = await client.callTool({ name: "files.list", arguments: {} });
assert(!looked.isError, text(looked));

// It is held, and then approved.
const held = write(client, "approved");
const [asked] = await pending();
await approve(asked.id);
const done = await held;
assert(!done.isError && id(done) === asked.id, text(done));

// It is denied, and told so.
const refused = write(client, "denied");
await ask("POST", `invocations/${(await pending())[0].id}/deny`, { reason: "not today" });
const denied = await refused;
assert(denied.isError && /^Denied by a person: .*not today/.test(text(denied)), text(denied));

// Its timer fires. It asks again, and gets the one result of the one approval.
await assert.rejects(write(client, "again", GIVES_UP), /timed out/i);
const [abandoned] = await pending();
await left(abandoned.id);
const again = write(client, "again");
await sleep(300);
assert.deepEqual((await pending()).map((call) => call.id), [abandoned.id], "nobody is asked a second time");
await approve(abandoned.id);
const joined = await again;
assert(!joined.isError && id(joined) === abandoned.id, text(joined));

// Approved while it was gone, nothing runs until it asks again.
await assert.rejects(write(client, "gone", GIVES_UP), /timed out/i);
const [gone] = await pending();
await left(gone.id);
await approve(gone.id);
await sleep(500);
const kept = await shown(gone.id);
assert(kept.status !== "succeeded" && kept.status !== "running", `it is ${kept.status}`);
const returned = await write(client, "gone");
assert(!returned.isError && id(returned) === gone.id, text(returned));

// The same words on two open streams are two calls.
const both = [write(client, "twice"), write(client, "twice")];
for (const call of await pending(2)) await approve(call.id);
const ids = (await Promise.all(both)).map(id);
assert.notEqual(ids[0], ids[1]);

// It hears that the catalogue has changed.
const before = changes;
await ask("PUT", "modes/files.read_text", { mode: "deny" });
await until("told of the change", () => changes > before);
await ask("DELETE", "modes/files.read_text");

assert.equal((await calls("succeeded")).filter((call) => call.action === "files.write_text").length, 5, "five writes ran, each once");
await client.close();
