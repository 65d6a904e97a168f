// client.mjs old|new http|stdio [timer|expired]: an agent with the official TypeScript SDK lists, calls, waits for a person, gives up and asks
// again. `old` is `@modelcontextprotocol/sdk`, which speaks 2025-11-25; `new` is `@modelcontextprotocol/client`, with 2026-07-28. The person is the
// owner over HTTP. The agent keeps notes with the source `notes`, so what ran, and how often, is read there. The source's server is at KIT.
//
// The SDK gives up after 60 seconds unless its option `timeout` says otherwise. `timer` waits for that. Elsewhere it is told to give up after 2.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const [, , age, way, journey = "main"] = process.argv;
const { COUNTERSIGN, COUNTERSIGN_URL: url, COUNTERSIGN_TOKEN: owner, KIT } = process.env;
const OWN_TIMER = {};
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

const session = await ask("POST", "sessions", { title: `${age} TypeScript over ${way}: ${journey}` });
let changes = 0;

// Without a `hold` the server does not know how long this client waits.
async function connect(hold) {
  const client = new sdk.Client(
    { name: "door-test", version: "1" },
    {
      ...(age === "new" && { versionNegotiation: { mode: "auto" } }),
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => (changes += 1) } },
    },
  );
  const transport =
    way === "http"
      ? new sdk.StreamableHTTPClientTransport(new URL(`${url}/mcp${hold ? `?hold=${hold}` : ""}`), {
          requestInit: { headers: { authorization: `Bearer ${session.token}` } },
        })
      : new sdk.StdioClientTransport({
          command: COUNTERSIGN,
          args: ["mcp", ...(hold ? ["--hold", `${hold}`] : [])],
          env: { COUNTERSIGN_URL: url, COUNTERSIGN_TOKEN: session.token, HOME: process.env.HOME ?? "/" },
        });
  await client.connect(transport);
  if (age === "new") assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
  return client;
}

// Waits for what somebody else does, for which there is nothing to wait on.
async function until(what, isSo) {
  for (let tries = 0; tries < 500; tries += 1) {
    const found = await isSo();
    if (found) return found;
    await sleep(50);
  }
  throw new Error(`it never happened: ${what}`);
}

const client = await connect(600);
const named = (name) => `${session.id} ${name}`;
const call = (name, given, options = OWN_TIMER, by = client) =>
  by.callTool({ name, arguments: given }, ...(age === "old" ? [undefined, options] : [options]));
const note = (name, options, by) => call("notes.note", { text: named(name) }, options, by);
const text = (result) => result.content.map((block) => block.text ?? "").join("\n");
const id = (result) => result._meta["countersign/invocation"];
const noted = async (name) => (await call("notes.look", { at: named(name) })).structuredContent.found.length;

// The questions that this call has led to, answered or not.
const questions = async (name) =>
  (await ask("GET", `invocations?session=${session.id}&limit=100`)).items.filter((item) => item.params?.text === named(name));
const pending = (name, count = 1) =>
  until(`${count} pending of ${name}`, async () => {
    const found = (await questions(name)).filter((item) => item.status === "pending");
    return found.length === count && found;
  });
const approve = (id) => ask("POST", `invocations/${id}/approve`, {});

// It asks, and its timer fires before anybody answers. Returns the call that it left, at that moment.
async function leaves(name, timer) {
  const began = Date.now();
  const givesUp = assert.rejects(note(name, timer), /timed out/i);
  const [asked] = await pending(name);
  await givesUp;
  assert(Date.now() - began > (timer.timeout ?? 60_000) - 100, "its own timer fired, and nothing else ended the call");
  return asked.id;
}

async function ranOnce(name, result, asked) {
  assert(!result.isError && id(result) === asked, text(result));
  assert.equal((await questions(name)).length, 1, "nobody was asked a second time");
  assert.equal(await noted(name), 1, "it ran once");
}

// It asks again at once, and gets the one result of the one approval.
async function asksAgain(timer) {
  const asked = await leaves("again", timer);
  const again = note("again");
  await sleep(700);
  assert.equal((await pending("again"))[0].id, asked);
  await approve(asked);
  await ranOnce("again", await again, asked);
}

// Approved while it was gone, nothing runs until it asks again.
async function isApprovedWhileGone(timer) {
  const asked = await leaves("gone", timer);
  await until("its caller has left", async () => (await ask("GET", `invocations/${asked}`)).invocation.caller_left);
  await approve(asked);
  await sleep(500);
  assert.equal(await noted("gone"), 0, "nothing has run");
  await ranOnce("gone", await note("gone"), asked);
}

// A client of which nothing is known gets a reference before its timer fires.
async function getsReference() {
  const plain = await connect();
  const reference = await note("reference", OWN_TIMER, plain);
  const [asked] = await pending("reference");
  assert(reference.isError !== true && id(reference) === asked.id && text(reference).startsWith("Not done yet"), text(reference));
  await approve(asked.id);
  await ranOnce("reference", await call("get_invocation", { id: asked.id }, OWN_TIMER, plain), asked.id);
  await plain.close();
}

async function main() {
  // It lists, and calls what needs nobody.
  const names = async () => (await client.listTools()).tools.map((tool) => tool.name);
  assert((await names()).includes("notes.note"), "the catalogue is listed");
  assert.equal(await noted("approved"), 0);

  // It is held, and then approved.
  const held = note("approved");
  const [asked] = await pending("approved");
  await approve(asked.id);
  await ranOnce("approved", await held, asked.id);

  // It is denied, and told so.
  const refused = note("denied");
  await ask("POST", `invocations/${(await pending("denied"))[0].id}/deny`, { reason: "not today" });
  const denied = await refused;
  assert(denied.isError && /^Denied by a person: .*not today/.test(text(denied)), text(denied));
  assert.equal(await noted("denied"), 0);

  await asksAgain(GIVES_UP);
  await isApprovedWhileGone(GIVES_UP);

  // The same words on two open streams are two calls.
  const both = [note("twice"), note("twice")];
  for (const one of await pending("twice", 2)) await approve(one.id);
  assert.equal(new Set((await Promise.all(both)).map(id)).size, 2);
  assert.equal(await noted("twice"), 2);

  // It hears that the catalogue has changed: a mode, and a source that comes and goes.
  const hears = async (method, path, body) => {
    const before = changes;
    await ask(method, path, body);
    await until(`told of ${method} ${path}`, () => changes > before);
  };
  await hears("PUT", "modes/files.read_text", { mode: "deny" });
  await hears("DELETE", "modes/files.read_text");
  await hears("POST", "sources", { name: "more", url: KIT, default_tier: "R1" });
  assert((await names()).includes("more.look"), "what was added is listed");
  await hears("DELETE", "sources/more");
  assert(!(await names()).includes("more.look"), "what was removed is not");
}

// Nobody answers in time, which is five minutes.
async function expires() {
  const late = await note("late", WAITS);
  assert(late.isError && text(late).startsWith("Expired:"), text(late));
  assert.equal(await noted("late"), 0);
}

const journeys = { main, expired: expires, timer: () => Promise.all([asksAgain(OWN_TIMER), isApprovedWhileGone(OWN_TIMER), getsReference()]) };
await journeys[journey]();
await client.close();
// The first SDK keeps sockets open for some seconds.
process.exit();
