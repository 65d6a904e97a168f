// model.mjs: a model that follows a script, in the wire forms of Anthropic's messages, OpenAI's responses and chat completions, and Gemini's
// generateContent. Asked by a person to write a note, it calls the tool for it. If the tool's answer is that it took too long, it makes the same
// call again; any other answer it repeats to the person, so what a client prints in the end is what the tool said. It prints its own address, and
// serves until it is killed. Each call that it makes is appended as a line to the file in LOG, with the answer to the one before.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const TIMES_MAX = 40;
// Claude Code shows a model the names of tools first, and their schemas when it searches for them.
const SEARCH = "call_search";
const tooLong = /time[d]?[ -]?out|too long|deadline|aborted|-32001/i;

// What the model says next: a call or words. `said` is what the tool answered so far, oldest first.
function next(asked, tools, said, hasSearched = false) {
  const wanted = asked.match(/write the note (\w+)/)?.[1];
  const tool = tools.find((name) => /notes[._]note$/.test(name));
  if (wanted && !tool && !hasSearched && tools.includes("ToolSearch")) return { tool: "ToolSearch", args: { query: "select:mcp__countersign__notes_note" }, id: SEARCH };
  if (!wanted || !tool) return { words: "There is nothing to do." };
  if (said.length === 0 || (tooLong.test(said.at(-1)) && said.length < TIMES_MAX)) {
    appendFileSync(process.env.LOG, `${wanted} ${JSON.stringify(said.at(-1) ?? "")}\n`);
    return { tool, args: { text: wanted }, id: `call_${said.length + 1}` };
  }
  return { words: `The tool was called ${said.length} times and said: ${said.at(-1)}` };
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? ""));
const event = (response, data, name) => response.write(`${name ? `event: ${name}\n` : ""}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);

function anthropic(body, response) {
  const parts = body.messages.flatMap(({ role, content }) => (Array.isArray(content) ? content : [{ type: "text", text: content }]).map((part) => ({ role, ...part })));
  const asked = parts.filter((part) => part.role === "user" && part.type === "text").map((part) => part.text).join("\n");
  const results = parts.filter((part) => part.type === "tool_result");
  const step = next(asked, (body.tools ?? []).map((tool) => tool.name), results.filter((part) => part.tool_use_id !== SEARCH).map((part) => text(part.content)), results.some((part) => part.tool_use_id === SEARCH));
  const block = step.tool ? { type: "tool_use", id: step.id, name: step.tool, input: step.args } : { type: "text", text: step.words };
  const reason = step.tool ? "tool_use" : "end_turn";
  const message = { id: "msg_1", type: "message", role: "assistant", model: body.model, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } };
  if (!body.stream) return json(response, { ...message, content: [block], stop_reason: reason });
  const send = (data) => event(response, data, data.type);
  send({ type: "message_start", message: { ...message, content: [], stop_reason: null } });
  send({ type: "content_block_start", index: 0, content_block: step.tool ? { ...block, input: {} } : { type: "text", text: "" } });
  send({ type: "content_block_delta", index: 0, delta: step.tool ? { type: "input_json_delta", partial_json: JSON.stringify(step.args) } : { type: "text_delta", text: step.words } });
  send({ type: "content_block_stop", index: 0 });
  send({ type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 1 } });
  send({ type: "message_stop" });
  response.end();
}

// Tools may be in a namespace, whose name is then sent back beside the tool's own.
function responses(body, response) {
  const items = Array.isArray(body.input) ? body.input : [{ role: "user", content: body.input }];
  const asked = items.filter((item) => item.role === "user").map((item) => text(item.content)).join("\n");
  const listed = (body.tools ?? []).flatMap((tool) => (tool.type === "namespace" ? tool.tools.map((inner) => ({ namespace: tool.name, name: inner.name })) : [{ name: tool.name ?? "" }]));
  const step = next(asked, listed.map(({ name }) => name), items.filter((item) => item.type === "function_call_output").map((item) => text(item.output)));
  const found = step.tool && listed.find(({ name }) => name === step.tool);
  const item = step.tool
    ? { type: "function_call", id: `fc_${step.id}`, call_id: step.id, ...found, arguments: JSON.stringify(step.args), status: "completed" }
    : { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [{ type: "output_text", text: step.words, annotations: [] }] };
  const whole = { id: "resp_1", object: "response", model: body.model, status: "completed", output: [item], usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } };
  const send = (data) => event(response, data, data.type);
  send({ type: "response.created", response: { ...whole, status: "in_progress", output: [] } });
  send({ type: "response.output_item.added", output_index: 0, item });
  if (!step.tool) send({ type: "response.output_text.delta", item_id: item.id, output_index: 0, content_index: 0, delta: step.words });
  send({ type: "response.output_item.done", output_index: 0, item });
  send({ type: "response.completed", response: whole });
  response.end();
}

function completions(body, response) {
  const asked = body.messages.filter(({ role }) => role === "user").map(({ content }) => (Array.isArray(content) ? content.map((part) => part.text).join("\n") : text(content))).join("\n");
  const step = next(asked, (body.tools ?? []).map((tool) => tool.function.name), body.messages.filter(({ role }) => role === "tool").map(({ content }) => text(content)));
  const delta = step.tool
    ? { role: "assistant", tool_calls: [{ index: 0, id: step.id, type: "function", function: { name: step.tool, arguments: JSON.stringify(step.args) } }] }
    : { role: "assistant", content: step.words };
  const chunk = (choice) => ({ id: "chat_1", object: "chat.completion.chunk", created: 1, model: body.model, choices: [{ index: 0, ...choice }] });
  event(response, chunk({ delta, finish_reason: null }));
  event(response, { ...chunk({ delta: {}, finish_reason: step.tool ? "tool_calls" : "stop" }), usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } });
  event(response, "[DONE]");
  response.end();
}

function gemini(body, response, streams) {
  const parts = (body.contents ?? []).flatMap(({ role, parts }) => parts.map((part) => ({ role, ...part })));
  const asked = parts.filter((part) => part.role === "user" && part.text).map((part) => part.text).join("\n");
  const tools = (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map((tool) => tool.name);
  const step = next(asked, tools, parts.filter((part) => part.functionResponse).map((part) => text(part.functionResponse.response)));
  const part = step.tool ? { functionCall: { name: step.tool, args: step.args, id: step.id } } : { text: step.words };
  const answer = { candidates: [{ index: 0, finishReason: "STOP", content: { role: "model", parts: [part] } }], usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 } };
  if (!streams) return json(response, answer);
  event(response, answer);
  response.end();
}

function json(response, body) {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(body));
}

const server = createServer(async (request, response) => {
  let raw = "";
  for await (const chunk of request) raw += chunk;
  const path = request.url.split("?")[0];
  const body = request.method === "POST" && raw ? JSON.parse(raw) : {};
  response.setHeader("content-type", "text/event-stream");
  if (path.endsWith("/messages")) anthropic(body, response);
  else if (path.endsWith("/count_tokens")) json(response, { input_tokens: 1 });
  else if (path.endsWith("/responses")) responses(body, response);
  else if (path.endsWith("/chat/completions")) completions(body, response);
  else if (/:(stream)?generateContent$/i.test(path)) gemini(body, response, path.includes(":stream"));
  else if (path.endsWith(":countTokens")) json(response, { totalTokens: 1 });
  else {
    response.statusCode = 404;
    json(response, { error: { message: `there is no ${path}` } });
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
