//! Who calls: the bearer token becomes a principal, or the request ends here.

use super::problem::Refusal;
use super::trace::TraceId;
use crate::App;
use api::Code;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use countersign_core::ports::{Rules, Sessions};
use countersign_core::principal::Permission;
use countersign_core::{Principal, Session, SessionId, SpaceId};
use store::Refused;

/// A request whose token was accepted.
pub(super) struct Caller {
    pub(super) principal: Principal,
    pub(super) trace_id: String,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let token = bearer(parts).ok_or_else(|| Refusal::new(Code::Unauthenticated, "this needs a token"))?;
        let authenticated = app.store().authenticate(token).await;
        if authenticated.is_err() && answers(parts) {
            pipeline::count_conflict("store_unavailable");
        }
        let principal = match authenticated? {
            Ok(principal) => principal,
            Err(Refused::Expired) => return Err(Refusal::new(Code::TokenExpired, "the token has expired")),
            Err(Refused::Revoked) => return Err(Refusal::new(Code::TokenRevoked, "the token was revoked")),
            Err(Refused::Unknown) => return Err(Refusal::new(Code::Unauthenticated, "the token is not valid")),
            Err(Refused::Inactive) => {
                return Err(Refusal::new(Code::Unauthenticated, "token invalid: its session has ended or its person is disabled"));
            }
        };
        let trace_id = parts.extensions.get::<TraceId>().map_or_else(String::new, |id| id.0.clone());
        Ok(Self { principal, trace_id })
    }
}

impl Caller {
    pub(super) fn must(&self, permission: Permission) -> Result<(), Refusal> {
        if self.principal.may(permission) {
            return Ok(());
        }
        Err(Refusal::new(Code::Forbidden, format!("`{}` does not hold the permission `{}`", self.principal.id, permission.as_str())))
    }

    /// A space of the caller's org, by its id.
    pub(super) async fn space(&self, app: &App, id: &str) -> Result<SpaceId, Refusal> {
        let unknown = || Refusal::not_found("space", id);
        let space = SpaceId::parse(id).map_err(|_| unknown())?;
        Ok(app.store().find_space(&self.principal.org, &space).await?.ok_or_else(unknown)?.id)
    }

    /// The session, if the caller may read it: their own, or any of the org for who may read everything.
    pub(super) async fn readable_session(&self, app: &App, id: &str) -> Result<Session, Refusal> {
        let unknown = Refusal::unknown_session;
        let id = SessionId::parse(id).map_err(|_| unknown())?;
        if self.principal.session.as_ref().is_some_and(|own| *own != id) {
            return Err(Refusal::new(Code::NotYourSession, "an agent reads its own session only"));
        }
        let session = app.store().find_session(&self.principal.org, &id).await?.ok_or_else(unknown)?;
        let own = self.principal.session.as_ref() == Some(&session.id) || session.created_by == self.principal.id;
        if (own && self.principal.may(Permission::ReadSession)) || self.principal.may(Permission::Read) {
            return Ok(session);
        }
        Err(Refusal::new(Code::NotYourSession, "the session belongs to someone else"))
    }
}

/// Whether the request answers an invocation: that it could not even be asked who does so counts like any answer that is not taken.
fn answers(parts: &Parts) -> bool {
    let path = parts.uri.path();
    path.contains("/invocations/") && ["/approve", "/deny"].iter().any(|way| path.ends_with(way))
}

fn bearer(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
