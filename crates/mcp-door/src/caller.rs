//! Who asks, in which session, and what the URL wishes for. It travels with each request, so a connection has no rights of its own.

use axum::http::request::Parts;
use countersign_core::{Principal, Secret, Session};
use operations::App;
use operations::sessions;
use pipeline::Line;
use rmcp::ErrorData;
use rmcp::model::Extensions;

/// A caller whose token was accepted.
#[derive(Clone, Debug)]
pub struct Caller {
    pub principal: Principal,
    pub session: Session,
    pub trace_id: String,
    pub wishes: Wishes,
    pub token: Secret<String>,
}

impl Caller {
    /// Whether it would be accepted now too. A stream may last longer than the right to it.
    pub(super) async fn is_accepted(&self, app: &App) -> bool {
        sessions::is_open_to(app, &self.token, &self.session).await
    }
}

/// What the URL asks for, or the token where the URL says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Three tools that find and call actions, instead of one tool for each action; absent: by the size of the catalogue.
    pub meta_tools: Option<bool>,
    /// Only this source, with its own names.
    pub source: Option<String>,
    /// How long the client waits for an answer, in seconds; absent: by its name.
    pub hold_seconds: Option<u64>,
}

/// The caller of a request.
pub(super) fn caller_of(extensions: &Extensions) -> Result<&Caller, ErrorData> {
    let caller = extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Caller>());
    caller.ok_or_else(|| ErrorData::internal_error("a request without a caller", None))
}

/// The line on which the caller of a request waits.
pub(super) fn line_of(extensions: &Extensions) -> Result<&Line, ErrorData> {
    let line = extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Line>());
    line.ok_or_else(|| ErrorData::internal_error("a request without a line", None))
}
