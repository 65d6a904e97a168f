// The MCP server that the suite's server scenarios are about: tools, prompts and resources with the names and answers that they ask for. It
// speaks 2026-07-28 and has no dependencies. It prints its address, and serves until it is killed.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const VERSION = "2026-07-28";
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";

const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const embedded = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const said = (...content) => ({ content });

// Asks the client for input, in the way of 2026-07-28.
const asks = (inputRequests, requestState) => ({ resultType: "input_required", inputRequests, ...(requestState && { requestState }) });
const form = (message) => ({
  method: "elicitation/create",
  params: { mode: "form", message, requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } },
});
const sampling = {
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: text("What is the capital of France?") }], maxTokens: 100 },
};
const roots = { method: "roots/list", params: {} };

const tools = {
  test_simple_text: () => said(text("This is a simple text response for testing.")),
  test_image_content: () => said(image),
  test_audio_content: () => said({ type: "audio", data: WAV, mimeType: "audio/wav" }),
  test_embedded_resource: () => said(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
  test_multiple_content_types: () =>
    said(text("Multiple content types test:"), image, embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')),
  test_error_handling: () => ({ ...said(text("This tool intentionally returns an error for testing")), isError: true }),
  test_tool_with_progress: async (_, tell) => {
    for (const progress of [0, 50, 100]) {
      tell("notifications/progress", { progress, total: 100 });
      await sleep(50);
    }
    return said(text("Done."));
  },
  test_tool_with_logging: async (_, tell) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      tell("notifications/message", { level: "info", data });
      await sleep(50);
    }
    return said(text("Done."));
  },
  test_logging_tool: () => said(text("Done.")),
  json_schema_2020_12_tool: () => said(text("Done.")),
  test_streaming_elicitation: () => asks({ user: form("Please provide your information") }),
  test_trigger_tool_change: () => changed("tools", tools, () => said(text("It is new."))),
  test_trigger_prompt_change: () => changed("prompts", prompts, { answer: () => [asked(text("It is new."))] }),
  test_sampling: () => asks({ capital: sampling }),
  test_elicitation: () => asks({ user: form("Please provide your information") }),
  test_elicitation_sep1034_defaults: () => asks({ user: form("Please review and update the form fields with defaults") }),
  test_elicitation_sep1330_enums: () => asks({ user: form("Please select options from the enum fields") }),
  test_missing_capability: () => asks({ capital: sampling }),
  test_input_required_result_elicitation: () => asks({ user_name: form("What is your name?") }),
  test_input_required_result_sampling: () => asks({ capital_question: sampling }),
  test_input_required_result_list_roots: () => asks({ client_roots: roots }),
  test_input_required_result_request_state: () => asks({ confirm: form("Please confirm") }, "state"),
  test_input_required_result_multiple_inputs: () => asks({ user_name: form("What is your name?"), greeting: sampling, client_roots: roots }, "state"),
  test_input_required_result_multi_round: () => asks({ step1: form("Step 1: What is your name?") }, "round 1"),
  test_input_required_result_tampered_state: () => asks({ confirm: form("Please confirm") }, "state"),
  test_input_required_result_capabilities: () => asks({ user_name: form("What is your name?") }),
};

// What a tool takes, where it is more than any object.
const address = { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } };
const schemas = {
  json_schema_2020_12_tool: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: { address },
    properties: {
      name: { type: "string" },
      address: { $ref: "#/$defs/address" },
      contactMethod: { type: "string", enum: ["phone", "email"] },
      phone: { type: "string" },
      email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
  },
};

const asked = (content) => ({ role: "user", content });
const prompts = {
  test_simple_prompt: { answer: () => [asked(text("This is a simple prompt for testing."))] },
  test_prompt_with_arguments: {
    arguments: ["arg1", "arg2"],
    answer: ({ arg1, arg2 }) => [asked(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  },
  test_prompt_with_embedded_resource: {
    arguments: ["resourceUri"],
    answer: ({ resourceUri }) => [
      asked(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
      asked(text("Please process the embedded resource above.")),
    ],
  },
  test_prompt_with_image: { answer: () => [asked(image), asked(text("Please analyze the image above."))] },
  test_input_required_result_prompt: { asks: () => asks({ user_context: form("What context should the prompt use?") }) },
};

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "Watched resource content" },
};
const TEMPLATE = "test://template/{id}/data";

function read(uri) {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  const content = id
    ? { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }
    : resources[uri];
  if (!content) throw { code: -32602, message: "Resource not found", data: { uri } };
  return { contents: [{ uri, ...content }] };
}

// Who listens to changes, and whoever it is hears of one more tool or prompt.
const listeners = new Set();
let changes = 0;
function changed(what, all, added) {
  // The suite calls the first tool of the list. A new one waits until somebody has looked at it.
  all[`test_added_${++changes}`] = added;
  for (const tell of listeners) tell(`notifications/${what}/list_changed`);
  return said(text("Changed."));
}

const kept = { ttlMs: 0, cacheScope: "private" };
const methods = {
  "server/discover": () => ({ supportedVersions: [VERSION], capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, resources: {} }, ...kept }),
  "tools/list": () => ({
    tools: Object.keys(tools).map((name) => ({ name, description: `Does what \`${name}\` is asked to do.`, inputSchema: schemas[name] ?? { type: "object" } })),
    ...kept,
  }),
  "tools/call": ({ name, arguments: given }, tell) => tools[name](given, tell),
  "prompts/list": () => ({
    prompts: Object.entries(prompts).map(([name, prompt]) => ({
      name,
      description: `Is what \`${name}\` asks for.`,
      arguments: prompt.arguments?.map((name) => ({ name, description: `Is \`${name}\`.`, required: true })),
    })),
    ...kept,
  }),
  "prompts/get": ({ name, arguments: given }) => prompts[name].asks?.() ?? { messages: prompts[name].answer(given ?? {}) },
  "resources/list": () => ({ resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice(7), mimeType })), ...kept }),
  "resources/templates/list": () => ({ resourceTemplates: [{ uriTemplate: TEMPLATE, name: "template", mimeType: "application/json" }], ...kept }),
  "resources/read": ({ uri }) => ({ ...read(uri), ...kept }),
};

const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  const { id, method, params } = body ? JSON.parse(body) : {};
  if (id === undefined) return response.writeHead(request.method === "POST" ? 202 : 405).end();
  const send = (message) => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
  };
  if (method === "subscriptions/listen") {
    const _meta = { "io.modelcontextprotocol/subscriptionId": id };
    const tell = (method, more) => send({ method, params: { _meta, ...more } });
    tell("notifications/subscriptions/acknowledged", { notifications: params.notifications });
    listeners.add(tell);
    return response.on("close", () => listeners.delete(tell));
  }
  const progressToken = params?._meta?.progressToken;
  const tell = (method, said) => progressToken !== undefined && send({ method, params: { progressToken, ...said } });
  try {
    if (!methods[method]) throw { code: -32601, message: `there is no ${method}` };
    send({ id, result: { resultType: "complete", ...(await methods[method](params, tell)) } });
  } catch ({ code = -32603, message, data }) {
    send({ id, error: { code, message, data } });
  }
  response.end();
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
