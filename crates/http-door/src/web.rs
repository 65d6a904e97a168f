//! The web UI: the files of `web/dist`, as they were when this was built. Whoever opens an address of it gets its one page, which asks the
//! API for everything else. Without those files a page says how to get them.

use super::html;
use super::problem::{self, Refusal};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Each file by its path; a name that ends in `.br` is the file before it, compressed.
type Files = &'static [(&'static str, &'static [u8])];

/// Empty if the UI was not built.
const FILES: Files = include!(concat!(env!("OUT_DIR"), "/web.rs"));

/// SECURITY: only files of ours are loaded and run, no text is ever evaluated, nothing is sent elsewhere, and no page of others shows this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Files whose name has their hash in it: they never change.
const HASHED: &str = "assets/";

/// What is never a page of the UI, whatever a browser asks for.
const NOT_PAGES: [&str; 4] = ["/api", "/docs", "/mcp", "/.well-known"];

const WITHOUT: &str = "<h1>Countersign</h1><p>The server works; its web UI is not in this build.</p>\
    <p>Its files are compiled into the server: run <code>npm ci &amp;&amp; npm run build</code> in the folder <code>web</code>, then \
    <code>cargo build</code>, and start the server that this makes. <code>make run</code> does all of it where Node.js 20.19 or newer is \
    installed.</p>\
    <p>From a terminal: <code>countersign inbox</code>. A single call can be answered at <code>/inbox/inv_…</code>, and the API is described \
    at <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>.</p>";

/// Whether a person opens a page: a program asks for anything, a browser for HTML.
pub(super) fn is_opened(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html"))
}

/// The one page of the UI, or what to do to get it.
pub(super) fn home(headers: &HeaderMap) -> Response {
    home_of(FILES, headers)
}

fn home_of(files: Files, headers: &HeaderMap) -> Response {
    served(files, "index.html", headers).unwrap_or_else(|| html::page(StatusCode::OK, WITHOUT))
}

/// A file or a page of the UI, or nothing that is known.
pub(super) async fn or_unknown(request: Request) -> Result<Response, Refusal> {
    match found(FILES, request.method(), request.uri().path(), request.headers()) {
        Some(response) => Ok(response),
        None => Err(problem::unknown_route().await),
    }
}

fn found(files: Files, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    if *method != Method::GET && *method != Method::HEAD {
        return None;
    }
    let is_page = is_opened(headers) && !NOT_PAGES.iter().any(|other| path.starts_with(other));
    let name = path.trim_start_matches('/');
    served(files, name, headers).or_else(|| if is_page { served(files, "index.html", headers) } else { None })
}

fn served(files: Files, name: &str, headers: &HeaderMap) -> Option<Response> {
    let file = |name: &str| files.iter().find(|(path, _)| *path == name).map(|(_, bytes)| *bytes);
    let takes_brotli = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains("br"));
    let kind = kind_of(name)?;
    let compressed = if takes_brotli { file(&format!("{name}.br")) } else { None };
    let encoding = compressed.is_some().then_some("br");
    let body = compressed.or_else(|| file(name))?;
    let kept = if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-store" };
    let mut response = body.into_response();
    let told = [
        (header::CONTENT_TYPE, Some(kind)),
        (header::CACHE_CONTROL, Some(kept)),
        (header::VARY, Some("accept-encoding")),
        (header::CONTENT_SECURITY_POLICY, Some(POLICY)),
        (header::X_FRAME_OPTIONS, Some("DENY")),
        (header::REFERRER_POLICY, Some("no-referrer")),
        (header::CONTENT_ENCODING, encoding),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    }
    Some(response)
}

/// The kinds of files that Vite writes; others are not served.
fn kind_of(name: &str) -> Option<&'static str> {
    let kinds = [
        ("html", "text/html; charset=utf-8"),
        ("js", "text/javascript; charset=utf-8"),
        ("css", "text/css; charset=utf-8"),
        ("svg", "image/svg+xml"),
        ("woff2", "font/woff2"),
    ];
    let (_, end) = name.rsplit_once('.')?;
    kinds.into_iter().find(|(known, _)| *known == end).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: Files = &[("assets/a-1.js", b"js"), ("assets/a-1.js.br", b"br"), ("index.html", b"<html>"), ("theme.js", b"t")];

    fn asked(path: &str, accept: &str, encoding: &str) -> Option<Response> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_str(encoding).unwrap());
        found(BUILT, &Method::GET, path, &headers)
    }

    #[test]
    fn a_file_is_served_with_its_kind_and_every_page_with_a_strict_policy() {
        let script = asked("/assets/a-1.js", "*/*", "gzip, br").unwrap();
        let headers = script.headers();
        assert_eq!(headers[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert_eq!(headers[header::CONTENT_ENCODING], "br");
        assert!(headers[header::CACHE_CONTROL].to_str().unwrap().ends_with("immutable"));
        assert!(asked("/assets/a-1.js", "*/*", "gzip").unwrap().headers().get(header::CONTENT_ENCODING).is_none());
        for page in ["/index.html", "/receipts", "/receipts/rcp_1", "/actions?q=x"] {
            let shown = asked(page, "text/html,*/*", "").unwrap();
            assert_eq!(shown.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8", "{page}");
            assert_eq!(shown.headers()[header::CACHE_CONTROL], "no-store", "{page}");
            let policy = shown.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        }
    }

    #[tokio::test]
    async fn without_the_ui_its_home_says_how_to_build_it_in() {
        let text = async |files: Files| {
            let response = home_of(files, &HeaderMap::new());
            assert_eq!(response.status(), StatusCode::OK);
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        assert_eq!(text(BUILT).await, "<html>");
        let without = text(&[]).await;
        // To start the server again is not enough: the files are part of it.
        let steps = ["npm run build", "cargo build", "start the server"].map(|step| without.find(step).unwrap());
        assert!(steps.is_sorted(), "{without}");
    }

    #[test]
    fn what_is_no_page_stays_unknown() {
        for (path, accept) in [
            ("/api/v1/nonsense", "text/html"),
            ("/docs/nonsense", "text/html"),
            ("/mcp/x", "text/html"),
            ("/receipts", "application/json"),
            ("/assets/old.js", "*/*"),
            ("/assets/a-1.js.br", "*/*"),
            ("/../index.html", "*/*"),
        ] {
            assert!(asked(path, accept, "br").is_none(), "{path}");
        }
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("text/html"))]);
        assert!(found(BUILT, &Method::POST, "/receipts", &headers).is_none());
        assert!(found(&[], &Method::GET, "/receipts", &headers).is_none(), "without the UI");
    }
}
