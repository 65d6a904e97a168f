//! Who calls: the bearer token, or the login of a browser, becomes a principal, or the request ends here.

use super::login;
use super::problem::Refusal;
use super::trace::TraceId;
use api::Code;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use countersign_core::{Principal, Secret, Session, SpaceId};
use operations::App;
use std::collections::BTreeSet;

/// A request whose token, or whose browser's login, was accepted.
pub struct Caller {
    pub principal: Principal,
    pub trace_id: String,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let shown = Shown::from_request_parts(parts, app).await?;
        let found = shown.principal(app).await;
        if found.as_ref().is_err_and(|refusal| refusal.0.code == Code::StoreUnavailable) && answers(parts) {
            pipeline::count_conflict("store_unavailable");
        }
        let trace_id = parts.extensions.get::<TraceId>().map_or_else(String::new, |id| id.0.clone());
        Ok(Self { principal: found?, trace_id })
    }
}

/// What a request shows to say who sends it.
#[derive(Clone)]
pub(super) enum Shown {
    Token(Secret<String>),
    /// The login of a browser, of which a page of ours made the request.
    Login(Secret<String>),
}

impl FromRequestParts<App> for Shown {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        if let Some(token) = bearer(&parts.headers) {
            return Ok(Self::Token(Secret::new(token.to_owned())));
        }
        login::of_own_page(parts, app).await?.map(Self::Login).ok_or_else(needs_token)
    }
}

impl Shown {
    /// Whose it is now.
    pub(super) async fn principal(&self, app: &App) -> Result<Principal, Refusal> {
        match self {
            Self::Token(token) => app.store().authenticate(token.expose()).await?.map_err(|refused| Refusal::of_token(refused, "token")),
            Self::Login(login) => {
                let ended = || Refusal::new(Code::Unauthenticated, "nobody is logged in here any more").hint("log in at `/login`");
                operations::logins::find(app, login.expose()).await?.ok_or_else(ended)
            }
        }
    }
}

pub fn needs_token() -> Refusal {
    Refusal::new(Code::Unauthenticated, "this needs a token")
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

pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
