// with_token.mjs <address>: the suite has no token, so this passes on everything it sends to the address, with the token in TOKEN. Where a
// request names this place, it names the server instead; nothing else is changed. It prints its own address, and serves until it is killed.
import { createServer, request as ask } from "node:http";

const to = process.argv[2];
const server = createServer((request, response) => {
  const named = (header) => request.headers[header]?.replace(`127.0.0.1:${server.address().port}`, new URL(to).host);
  const headers = { ...request.headers, host: named("host"), authorization: `Bearer ${process.env.TOKEN}` };
  if (request.headers.origin) headers.origin = named("origin");
  const asked = ask(to, { method: request.method, headers, setHost: false }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  asked.on("error", () => response.destroy());
  // Whoever goes here goes there, too.
  response.on("close", () => asked.destroy());
  request.pipe(asked);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
