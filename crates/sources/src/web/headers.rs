//! Which headers a caller may set: none that would change where the request goes or how it is framed.

use crate::limits::{HTTP_HEADER_VALUE_BYTES_MAX, HTTP_HEADERS_MAX};
use crate::words::{refused, shown};
use countersign_core::ports::connections::ConnectionHeaders;
use countersign_core::source::Error;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use std::collections::BTreeMap;

/// Headers about framing, routing and proxying, which only the client sets.
const REFUSED: [&str; 11] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "via",
];

/// Headers with which a proxy tells the server behind it what was asked for. Many servers believe them from anybody, and then answer another
/// host or another path than the one that was checked.
const REWRITING: [&str; 5] = ["forwarded", "x-forwarded", "x-host", "x-http-host-override", "x-override-url"];
/// How further headers of this kind begin.
const REWRITING_PREFIXES: [&str; 4] = ["x-forwarded-", "x-original-", "x-rewrite-", "x-envoy-"];

/// Reads a caller's headers. Messages name a header, never its value.
pub(crate) fn checked<'h>(headers: impl ExactSizeIterator<Item = (&'h String, &'h String)>) -> Result<HeaderMap, Error> {
    if headers.len() > HTTP_HEADERS_MAX {
        return Err(refused("header_not_allowed", format!("at most {HTTP_HEADERS_MAX} headers may be set")));
    }
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let not_allowed = |why: &str| refused("header_not_allowed", format!("header `{}` cannot be set: {why}", shown(name)));
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| not_allowed("it is not a header name"))?;
        // Many servers read `x_y` as `x-y`.
        let read_as = header.as_str().replace('_', "-");
        if REFUSED.contains(&read_as.as_str()) || read_as.starts_with("proxy-") {
            return Err(not_allowed("it belongs to the connection"));
        }
        if REWRITING.contains(&read_as.as_str()) || REWRITING_PREFIXES.iter().any(|prefix| read_as.starts_with(prefix)) {
            return Err(not_allowed("it can make another target of the one that was checked"));
        }
        if value.len() > HTTP_HEADER_VALUE_BYTES_MAX {
            return Err(not_allowed(&format!("its value is longer than {HTTP_HEADER_VALUE_BYTES_MAX} bytes")));
        }
        // Servers disagree about how to read bytes that are not ASCII.
        let value = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii());
        let value = value.ok_or_else(|| not_allowed("its value holds characters a header cannot carry"))?;
        if checked.insert(header, value).is_some() {
            return Err(not_allowed("it is given twice, in two spellings"));
        }
    }
    Ok(checked)
}

/// The headers of a connection, marked so that no log of the client shows them.
pub(crate) fn of_connection(credential: &ConnectionHeaders) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in credential.expose() {
        // Both were checked when the headers were made.
        if let (Ok(name), Ok(mut value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers
}

/// The caller's headers that may follow a redirect to another origin: none that could be a credential.
pub(super) fn for_another_origin(headers: &HeaderMap) -> HeaderMap {
    [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT].into_iter().filter_map(|name| headers.get(&name).cloned().map(|value| (name, value))).collect()
}

/// The headers of a response. Values of the same name are joined, and each result is cut to its limit.
pub(crate) fn received(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers {
        let text = joined.entry(name.as_str()).or_default();
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&String::from_utf8_lossy(value.as_bytes()));
    }
    joined.into_iter().map(|(name, text)| (name.to_owned(), cut(text))).collect()
}

fn cut(mut text: String) -> String {
    let end = (0..=text.len().min(HTTP_HEADER_VALUE_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<HeaderMap, Error> {
        checked([(&name.to_owned(), &value.to_owned())].into_iter())
    }

    #[test]
    fn ordinary_headers_may_be_set() {
        for (name, value) in [
            ("accept", "application/json"),
            ("Authorization", "Bearer x"),
            ("X-Request-Id", "1"),
            ("content-type", "text/plain; charset=utf-8"),
            ("cookie", "a=b"),
            ("x-empty", ""),
            ("x-forward", "1"),
            ("original-url", "1"),
        ] {
            assert_eq!(check(name, value).unwrap().get(name).unwrap(), value);
        }
    }

    #[test]
    fn headers_that_frame_route_or_smuggle_are_refused() {
        for (name, value) in [
            ("Host", "evil.test"),
            ("HOST", "evil.test"),
            ("content-length", "0"),
            ("Content-Length", "5"),
            ("transfer-encoding", "chunked"),
            ("Transfer-Encoding", "identity"),
            ("connection", "keep-alive"),
            ("Connection", "upgrade"),
            ("keep-alive", "1"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("http2-settings", "x"),
            ("via", "x"),
            ("proxy-authorization", "x"),
            ("Proxy-Connection", "x"),
            ("proxy-anything", "x"),
            ("transfer_encoding", "chunked"),
            ("Forwarded", "host=evil.test"),
            ("X-Forwarded-Host", "evil.test"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("x_forwarded_host", "evil.test"),
            ("X-Original-URL", "/admin"),
            ("X-Original-Host", "evil.test"),
            ("X-Rewrite-URL", "/admin"),
            ("X-Host", "evil.test"),
            ("X-HTTP-Host-Override", "evil.test"),
            ("X-Override-URL", "/admin"),
            ("X-Envoy-Original-Dst-Host", "10.0.0.1:80"),
            ("x", "a\r\nHost: evil.test"),
            ("x", "a\nb"),
            ("x", "a\rb"),
            ("x", "a\0b"),
            ("x", "a\u{7f}"),
            ("x", "é"),
            ("x\r\nhost", "a"),
            ("x y", "a"),
            ("x:", "a"),
            (":path", "/"),
            (":authority", "evil.test"),
            ("host ", "evil.test"),
            (" host", "evil.test"),
            ("host\t", "evil.test"),
            ("transfer-encoding\0", "chunked"),
            ("", "a"),
            ("ｈost", "evil.test"),
        ] {
            assert_eq!(check(name, value).unwrap_err().code(), "header_not_allowed", "{name:?}: {value:?}");
        }
        assert!(check("x", &"a".repeat(HTTP_HEADER_VALUE_BYTES_MAX + 1)).is_err());
        let many: BTreeMap<_, _> = (0..=HTTP_HEADERS_MAX).map(|n| (format!("x-{n}"), String::new())).collect();
        assert!(checked(many.iter()).is_err());
        let twice: BTreeMap<String, String> = [("X".into(), "1".into()), ("x".into(), "2".into())].into();
        assert!(checked(twice.iter()).is_err());
    }

    #[test]
    fn a_refusal_does_not_repeat_the_value() {
        let message = check("authorization", "hunter2\n").unwrap_err().to_string();
        assert!(message.contains("`authorization`") && !message.contains("hunter2"), "{message}");
    }

    #[test]
    fn only_harmless_headers_follow_to_another_origin() {
        let headers = ["accept", "user-agent", "authorization", "cookie", "x-api-key"].map(|name| (name.to_owned(), "x".to_owned()));
        let headers = BTreeMap::from(headers);
        let kept = for_another_origin(&checked(headers.iter()).unwrap());
        assert_eq!(kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept", "user-agent"]);
    }

    #[test]
    fn received_headers_are_joined_and_bounded() {
        let mut headers = HeaderMap::new();
        headers.append("vary", HeaderValue::from_static("a"));
        headers.append("vary", HeaderValue::from_static("b"));
        headers.append("x-long", HeaderValue::from_bytes(format!("a{}", "é".repeat(10_000)).as_bytes()).unwrap());
        headers.append("x-bytes", HeaderValue::from_bytes(&[0xff, b'a']).unwrap());
        let received = received(&headers);
        assert_eq!((received["vary"].as_str(), received["x-bytes"].as_str()), ("a, b", "\u{fffd}a"));
        // The limit falls inside an é, so the text is cut before it.
        assert_eq!(received["x-long"].len(), HTTP_HEADER_VALUE_BYTES_MAX - 1);
    }
}
