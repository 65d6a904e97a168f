//! Every request has a trace id: the caller's W3C `traceparent`, or a fresh one. It is in every log line, problem and receipt.

use super::reached::Reached;
use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use countersign_core::Random;
use countersign_core::limits::LIGHT_BYTES_MAX;
use durable::heavy;
use futures_util::FutureExt;
use operations::App;
use std::panic::AssertUnwindSafe;
use tower::ServiceExt;
use tracing::Instrument;

/// 32 hex characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceId(pub(super) String);

/// Answers one request: every one has a trace id, and a bug in a handler costs that request and no more.
pub(super) async fn answer(app: &App, router: Router, mut request: Request) -> Response {
    let id = from_caller(request.headers()).unwrap_or_else(|| fresh(app));
    request.extensions_mut().insert(TraceId(id.clone()));
    let span = tracing::info_span!("request", trace_id = id);
    let method = request.method().clone();
    // The path only: a query may one day hold something that must not be logged.
    let path = loggable(request.uri().path()).to_owned();
    let client = request.extensions().get::<Reached>().map(|reached| reached.client);
    let began = std::time::Instant::now();
    let is_light = request.body().size_hint().upper().is_some_and(|bytes| bytes <= LIGHT_BYTES_MAX as u64);
    let answered = AssertUnwindSafe(router.oneshot(request)).catch_unwind().instrument(span);
    // A large body is read, checked, scanned and sealed where nobody else waits for a thread.
    let answered = if is_light { answered.await } else { heavy::run(answered).await };
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(panic) => super::problem::panicked(panic),
    };
    let (status, micros) = (response.status().as_u16(), began.elapsed().as_micros() as u64);
    let client = client.map(tracing::field::display);
    tracing::debug!(%method, path, status, micros, client, trace_id = id, "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-trace-id", value);
    }
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response.headers_mut().entry("cache-control").or_insert(HeaderValue::from_static("no-store"));
    super::problem::with_trace(response, &id)
}

/// A trace id that nobody had before.
pub(super) fn fresh(app: &App) -> String {
    drawn(&*app.parts.random)
}

pub(super) fn drawn(random: &dyn Random) -> String {
    hex::encode(countersign_core::random_bytes::<16>(random))
}

/// `00-<trace id>-<span id>-<flags>`; anything else is ignored.
fn from_caller(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let fits = version.len() == 2 && id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (fits && id.bytes().any(|byte| byte != b'0')).then(|| id.to_owned())
}

/// SECURITY: what follows these in a path logs somebody in, or answers a call. It is cut off.
fn loggable(path: &str) -> &str {
    let secrets_from =
        ["/login/once/", "/login/invitation/", "/answer/"].into_iter().filter_map(|before| Some(path.find(before)? + before.len())).min();
    secrets_from.and_then(|from| path.get(..from)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::loggable;

    #[test]
    fn a_path_that_opens_something_is_logged_without_what_opens_it() {
        for (path, logged) in [
            ("/login/once/s3cret", "/login/once/"),
            ("//login/once/s3cret/", "//login/once/"),
            ("/login/invitation/s3cret", "/login/invitation/"),
            ("/answer/s3cret", "/answer/"),
            ("/answer/s3cret/login/once/x", "/answer/"),
            ("/login/once", "/login/once"),
            ("/api/v1/invocations/inv_1/approve", "/api/v1/invocations/inv_1/approve"),
            ("/", "/"),
        ] {
            assert_eq!(loggable(path), logged, "{path}");
        }
    }
}
