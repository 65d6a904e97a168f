//! Where the MCP door is mounted: `/mcp`, and what tells a client how to log in there.

use api::Code;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use countersign_core::Secret;
use countersign_core::limits::MCP_HOLD_SECONDS_MAX;
use countersign_core::mcp::{McpTools, McpWishes};
use http_door::{Asked, Caller, OwnAddress, Reached, Refusal, bearer, needs_token};
use mcp_door::{Door, HostOf, Wishes};
use operations::{App, sessions};
use serde::Deserialize;
use serde_json::{Value, json};
use sources::oauth::Own;

const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The routes of this door, to be served beside those of the HTTP door.
pub fn routes(app: &App) -> Router<App> {
    let door = Door::new(app.clone());
    Router::new()
        .route("/mcp", any(move |State(app): State<App>, request: Request| answer(app, door.clone(), request)))
        .route(METADATA, get(metadata))
        .route("/.well-known/oauth-protected-resource/mcp", get(metadata))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DoorQuery {
    /// The session, for a token that is not an agent's.
    session: Option<String>,
    /// `catalogue`: a tool for each action; `meta`: three tools that find and call them.
    tools: Option<McpTools>,
    /// Only this source, with its own names.
    source: Option<String>,
    /// How long the client waits for an answer, in seconds.
    hold: Option<u64>,
}

async fn answer(app: App, door: Door, request: Request) -> Response {
    let is_passed_on = request.extensions().get::<Reached>().is_some_and(|reached| reached.is_passed_on);
    if let Some(refused) = door.refuses(&request, if is_passed_on { HostOf::Proxy } else { HostOf::Client }) {
        return refused;
    }
    let (mut parts, body) = request.into_parts();
    let caller = async {
        let caller = Caller::from_request_parts(&mut parts, &app).await?;
        let Asked(query) = Asked::<DoorQuery>::from_request_parts(&mut parts, &app).await?;
        let session = sessions::for_calls(&app, &caller.principal, query.session.as_deref()).await?;
        let of_token = match &caller.principal.token {
            Some(token) => app.store().find_mcp_wishes(&caller.principal.org, token).await?.unwrap_or_default(),
            None => McpWishes::default(),
        };
        let wishes = wishes(query, of_token)?;
        let token = Secret::new(bearer(&parts.headers).ok_or_else(needs_token)?.to_owned());
        Ok::<_, Refusal>(mcp_door::Caller { session, principal: caller.principal, trace_id: caller.trace_id, wishes, token })
    };
    match caller.await {
        Ok(caller) => door.answer(caller, Request::from_parts(parts, body)).await,
        Err(refusal) => {
            let Ok(OwnAddress(own)) = OwnAddress::from_request_parts(&mut parts, &app).await;
            challenged(&own, refusal)
        }
    }
}

/// What the URL asks for or, where it says nothing, the token.
fn wishes(query: DoorQuery, of_token: McpWishes) -> Result<Wishes, Refusal> {
    if query.hold.is_some_and(|hold| !(1..=MCP_HOLD_SECONDS_MAX).contains(&hold)) {
        return Err(Refusal::new(Code::InvalidQuery, format!("`hold` must be 1 to {MCP_HOLD_SECONDS_MAX} seconds")));
    }
    let meta_tools = query.tools.or(of_token.tools).map(|wanted| match wanted {
        McpTools::Catalogue => false,
        McpTools::Meta => true,
    });
    Ok(Wishes { meta_tools, source: query.source, hold_seconds: query.hold.or(of_token.hold_seconds) })
}

/// A refusal that tells a client without a valid token where it finds out how to get one.
fn challenged(own: &Own, refusal: Refusal) -> Response {
    let mut response = refusal.into_response();
    let challenge = format!("Bearer resource_metadata=\"{}{METADATA}/mcp\"", own.address());
    if response.status() == StatusCode::UNAUTHORIZED
        && let Ok(challenge) = HeaderValue::from_str(&challenge)
    {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// What this resource is, and how a token is shown to it (RFC 9728). Its tokens are made by this server for this server alone, so there is
/// no authorization server to ask, and none is named: a token of any other audience is unknown here.
async fn metadata(OwnAddress(own): OwnAddress) -> Json<Value> {
    let address = own.address();
    Json(json!({
        "resource": format!("{address}/mcp"),
        "resource_name": "Countersign",
        "bearer_methods_supported": ["header"],
        "resource_documentation": format!("{address}/docs/guides/mcp-door"),
    }))
}
