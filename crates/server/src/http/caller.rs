//! Who calls: the bearer token becomes a principal, or the request ends here.

use super::problem::Refusal;
use super::trace::TraceId;
use crate::{App, operations};
use api::Code;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use countersign_core::{Principal, Session, SpaceId};
use std::collections::BTreeSet;
use store::Refused;

/// A request whose token was accepted.
pub(super) struct Caller {
    pub(super) principal: Principal,
    pub(super) trace_id: String,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let token = bearer(&parts.headers).ok_or_else(needs_token)?;
        let authenticated = app.store().authenticate(token).await;
        if authenticated.is_err() && answers(parts) {
            pipeline::count_conflict("store_unavailable");
        }
        let principal = authenticated?.map_err(|refused| refusal(refused, "token"))?;
        let trace_id = parts.extensions.get::<TraceId>().map_or_else(String::new, |id| id.0.clone());
        Ok(Self { principal, trace_id })
    }
}

/// Whose token it is now.
pub(super) async fn principal_of(app: &App, token: &str) -> Result<Principal, Refusal> {
    app.store().authenticate(token).await?.map_err(|refused| refusal(refused, "token"))
}

pub(super) fn needs_token() -> Refusal {
    Refusal::new(Code::Unauthenticated, "this needs a token")
}

/// Why a token or an invitation was refused.
pub(super) fn refusal(refused: Refused, what: &str) -> Refusal {
    match refused {
        Refused::Expired => Refusal::new(Code::TokenExpired, format!("the {what} has expired")),
        Refused::Revoked if what == "invitation" => Refusal::new(Code::TokenRevoked, "the invitation was redeemed already, or revoked"),
        Refused::Revoked => Refusal::new(Code::TokenRevoked, format!("the {what} was revoked")),
        Refused::Unknown => Refusal::new(Code::Unauthenticated, format!("the {what} is not valid")),
        Refused::OrgDisabled => Refusal::new(Code::OrgDisabled, format!("the org of this {what} is disabled")),
        Refused::Inactive => {
            Refusal::new(Code::Unauthenticated, format!("{what} invalid: its session has ended or its person is disabled"))
        }
    }
}

impl Caller {
    pub(super) fn must_read(&self) -> Result<(), Refusal> {
        Ok(operations::must_read(&self.principal)?)
    }

    pub(super) fn must_read_session(&self) -> Result<(), Refusal> {
        Ok(operations::must_read_session(&self.principal)?)
    }

    /// The spaces that do not exist for the caller.
    pub(super) async fn hidden(&self, app: &App) -> Result<BTreeSet<SpaceId>, Refusal> {
        Ok(operations::sight::hidden(app, &self.principal).await?)
    }

    /// Those of these that exist for the caller. `about` gives a text with the ids that each is about.
    pub(super) async fn seen_of<T: Send>(&self, app: &App, items: Vec<T>, about: impl Fn(&T) -> String + Send) -> Result<Vec<T>, Refusal> {
        Ok(operations::sight::seen_of(app, &self.principal, items, about).await?)
    }

    pub(super) async fn readable_session(&self, app: &App, id: &str) -> Result<Session, Refusal> {
        Ok(operations::sessions::readable(app, &self.principal, id).await?)
    }
}

/// Whether the request approves or denies a call. If the store is away, it is counted as a refused answer.
fn answers(parts: &Parts) -> bool {
    let path = parts.uri.path();
    path.contains("/invocations/") && ["/approve", "/deny"].iter().any(|way| path.ends_with(way))
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
