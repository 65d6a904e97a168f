//! Pages for people, without a script. What others wrote is shown as text, with what it hides.

use super::problem::Refusal;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::clean;
use receipt::entry::payload_digest;

/// For a telephone too, and in the dark.
const STYLE: &str = ":root{color-scheme:light dark;--soft:#f4f4f5;--line:#d4d4d8;--muted:#52525b;--bad:#b91c1c;--link:#1d4ed8;--act:#18181b;--on:#fafafa}\
    @media(prefers-color-scheme:dark){:root{--soft:#27272a;--line:#52525b;--muted:#a1a1aa;--bad:#f87171;--link:#93c5fd;--act:#fafafa;--on:#18181b}}\
    html{background:Canvas;color:CanvasText}body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}\
    main{border:1px solid var(--line);border-radius:.75rem;padding:1rem 1.25rem}a{color:var(--link)}\
    h1{font-size:1.25rem;margin:0 0 .5rem}h2{font-size:1rem;margin:1.25rem 0 .5rem}small{color:var(--muted)}b{color:var(--bad)}\
    dl{display:grid;grid-template-columns:max-content 1fr;gap:.35rem 1.25rem;margin:1.25rem 0}dt{color:var(--muted)}dd{margin:0;unicode-bidi:isolate}\
    @media(max-width:32rem){dl{display:block}dd{margin:0 0 .5rem}}\
    pre,code{background:var(--soft);border-radius:.5rem;font-size:.9rem}code{padding:.1rem .35rem}\
    pre{padding:.75rem;white-space:pre-wrap;unicode-bidi:isolate}label{display:block;margin:0 0 .75rem}\
    input{font:inherit;width:100%;box-sizing:border-box;padding:.5rem .75rem;border:1px solid var(--muted);border-radius:.5rem}\
    button{font:inherit;padding:.6rem 1.1rem;min-height:2.75rem;margin:0 .5rem .5rem 0;border:1px solid var(--act);border-radius:.5rem;\
    background:var(--act);color:var(--on);cursor:pointer}button[value=deny],small~button{background:none;color:inherit;border-color:var(--muted)}";

/// SECURITY: nothing is loaded, nothing runs, and no page of others shows this one inside it; the address, which may be a secret, is told to
/// nobody, and nothing is kept.
pub(super) fn page(status: StatusCode, body: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Countersign</title><style>{STYLE}</style><main>{body}</main></html>"
    );
    let style = STANDARD.encode(payload_digest(STYLE).as_bytes());
    let policy = format!("default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    let headers = [(header::REFERRER_POLICY, "no-referrer"), (header::CACHE_CONTROL, "no-store"), (header::X_FRAME_OPTIONS, "DENY")];
    let mut response = (status, headers, Html(text)).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Why something was refused.
pub(super) fn told(refusal: &Refusal) -> Response {
    told_with(refusal, "")
}

/// Why something was refused, and after that a further part of the page.
pub(super) fn told_with(refusal: &Refusal, more: &str) -> Response {
    let problem = &refusal.0;
    let hint = problem.hint.as_deref().map(|hint| format!("<p>{}</p>", escaped(hint))).unwrap_or_default();
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = page(status, &format!("<h1>{}</h1><p>{}</p>{hint}{more}", escaped(&problem.title), escaped(&problem.detail)));
    if let Some(wait_ms) = problem.retry_after_ms {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000)));
    }
    response
}

/// SECURITY: text of others never becomes markup, and shows what it hides as the card does.
pub(super) fn escaped(text: &str) -> String {
    clean::block(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// Like `escaped`, for a text that stands in one line: line breaks are shown too.
pub(super) fn escaped_line(text: &str) -> String {
    escaped(&clean::line(text))
}
