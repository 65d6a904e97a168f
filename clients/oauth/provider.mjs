// A protected resource and its authorization server, which is the real oidc-provider. Everybody who comes is let in as "robin". The client
// "countersign" lets people sign in: POST /groups?g=NAME says in which group robin is from then on, which the issuer tells apart from ID tokens.
// GET /mcp is the resource; POST /mcp is an MCP server with one tool. POST /end ends the login, as its owner could. GET /issued lists every
// token that was given out, one a line. Prints its own address once it answers.
//
// provider.mjs PORT [asks]: with `asks` people say on its own pages who they are, and agree or cancel; and it is another site than 127.0.0.1.
import http from "node:http";
import * as oidc from "oidc-provider";

const Provider = oidc.Provider ?? oidc.default;
const port = Number(process.argv[2]);
const asks = process.argv[3] === "asks";
const issuer = `http://${asks ? "localhost" : "127.0.0.1"}:${port}`;
const resource = `${issuer}/mcp`;
// A token lives one second longer than the time before its end at which it is renewed.
const seconds = 31;
let grantId;
let renewals = 0;
const issued = new Set();
let groups = [];
// On loopback a native client comes back to any port.
const signIn = {
  client_id: "countersign",
  client_secret: "canary-client-secret-7731",
  application_type: "native",
  redirect_uris: ["http://127.0.0.1/login/oidc/callback"],
};

const provider = new Provider(issuer, {
  clients: [signIn],
  cookies: { keys: ["not a secret: this is a test"] },
  scopes: ["openid", "offline_access", "read"],
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id, preferred_username: id, groups }) }),
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: true,
  features: {
    devInteractions: { enabled: asks },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: async (_ctx, client) => (client.clientId === signIn.client_id ? undefined : resource),
      useGrantedResource: async () => true,
      getResourceServerInfo: async (_ctx, indicator) => {
        if (indicator !== resource) throw new Error(`asked for ${indicator}`);
        return { scope: "read", audience: resource, accessTokenFormat: "opaque", accessTokenTTL: seconds };
      },
    },
  },
});
provider.on("grant.success", (ctx) => {
  for (const token of [ctx.body.access_token, ctx.body.refresh_token, ctx.body.id_token]) if (token) issued.add(token);
  if (ctx.oidc.params.grant_type === "refresh_token") renewals += 1;
});

async function letIn(request, response) {
  const { prompt, params, session, grantId: known } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "robin" } }, { mergeWithLastSubmission: false });
  }
  const grant = known
    ? await provider.Grant.find(known)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(" "));
  for (const [indicator, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(indicator, scopes.join(" "));
  }
  grantId = await grant.save();
  return provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
}

async function resourceItself(request, response) {
  const sent = request.headers.authorization?.replace(/^Bearer /, "");
  const token = sent && (await provider.AccessToken.find(sent));
  if (token?.isValid && token.aud === resource) {
    return request.method === "POST" ? await mcp(request, response) : response.writeHead(405).end();
  }
  return response.writeHead(401, { "www-authenticate": 'Bearer error="invalid_token"' }).end();
}

// As little of MCP as a source needs.
async function mcp(request, response) {
  let text = "";
  for await (const chunk of request) text += chunk;
  const asked = JSON.parse(text);
  if (asked.id === undefined) return response.writeHead(202).end();
  const results = {
    initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "linear", version: "1" } },
    "tools/list": { tools: [{ name: "look", description: "Looks.", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }] },
    "tools/call": { content: [{ type: "text", text: "seen" }] },
  };
  const result = results[asked.method];
  const answer = result ? { result } : { error: { code: -32601, message: "unknown" } };
  return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id: asked.id, ...answer }));
}

const answer = provider.callback();
const server = http.createServer(async (request, response) => {
  const path = new URL(request.url, issuer).pathname;
  const json = (value) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
  try {
    if (path === "/mcp") return await resourceItself(request, response);
    if (path === "/.well-known/oauth-protected-resource/mcp") {
      return json({ resource, authorization_servers: [issuer], scopes_supported: ["read"] });
    }
    if (!asks && path.startsWith("/interaction/")) return await letIn(request, response);
    if (path === "/renewals") return json(renewals);
    if (path === "/groups") return json((groups = new URL(request.url, issuer).searchParams.getAll("g")));
    if (path === "/issued") return response.writeHead(200).end([...issued].join("\n"));
    if (path === "/end") {
      await provider.RefreshToken.revokeByGrantId(grantId);
      await provider.AccessToken.revokeByGrantId(grantId);
      return json(true);
    }
    return await answer(request, response);
  } catch (error) {
    console.error(error);
    return response.writeHead(500).end(String(error));
  }
});
server.listen(port, "127.0.0.1", () => console.log(issuer));
