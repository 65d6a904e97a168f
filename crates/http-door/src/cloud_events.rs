//! CloudEvents 1.0 over HTTP, in its three modes: one event as a JSON document, several of them as a list, and one whose attributes are headers.

use super::body::{parse, parse_exact, shape};
use super::problem::Refusal;
use api::Code;
use api::compat::is_decision;
use api::event::PublishRequest;
use api::stream::EventRequest;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use serde_json::{Map, Value, json};

/// What a client has sent.
#[derive(Debug)]
pub(super) enum Sent {
    /// A decision on an action, which becomes a call.
    Decision(Box<EventRequest>),
    Events(Vec<PublishRequest>),
}

/// Begins the names of the headers that are attributes.
const ATTRIBUTE: &str = "ce-";

pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Sent, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/cloudevents-batch+json" => list(parse_exact(body)?),
        "application/cloudevents+json" => one(parse_exact(body)?, body),
        // The attributes are headers, and the body is the data.
        _ if headers.contains_key("ce-specversion") => {
            if !body.is_empty() && kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
                return Err(Refusal::new(Code::UnsupportedMediaType, "the data of an event must be JSON"));
            }
            one(of_headers(headers, if body.is_empty() { None } else { Some(parse_exact(body)?) })?, body)
        }
        "application/json" => {
            let sent = parse_exact(body)?;
            if sent.is_array() { list(sent) } else { one(sent, body) }
        }
        _ => Err(Refusal::new(Code::UnsupportedMediaType, "the body must be JSON, or an event must have its attributes in `ce-` headers")),
    }
}

fn one(event: Value, body: &Bytes) -> Result<Sent, Refusal> {
    if event["type"].as_str().is_some_and(is_decision) {
        // It becomes a call, which is signed.
        if !body.is_empty() {
            parse(body)?;
        }
        return shape(event).map(|decision| Sent::Decision(Box::new(decision)));
    }
    shape(event).map(|event| Sent::Events(vec![event]))
}

fn list(events: Value) -> Result<Sent, Refusal> {
    let is_any = events.as_array().into_iter().flatten().any(|event| event["type"].as_str().is_some_and(is_decision));
    if is_any {
        return Err(Refusal::new(Code::InvalidRequest, "an `action.decision` is sent by itself, not in a list"));
    }
    shape(events).map(Sent::Events)
}

fn of_headers(headers: &HeaderMap, data: Option<Value>) -> Result<Value, Refusal> {
    let mut event = Map::new();
    for (name, value) in headers {
        let Some(attribute) = name.as_str().strip_prefix(ATTRIBUTE) else { continue };
        let unreadable = || Refusal::new(Code::InvalidRequest, format!("the header `{name}` cannot be read"));
        let text = decoded(value.as_bytes()).ok_or_else(unreadable)?;
        if event.insert(attribute.to_owned(), json!(text)).is_some() {
            return Err(Refusal::new(Code::InvalidRequest, format!("the header `{name}` was sent twice")));
        }
    }
    if let Some(data) = data {
        event.insert("data".to_owned(), data);
    }
    Ok(Value::Object(event))
}

/// A header's text: what is no ASCII in it is percent-encoded.
fn decoded(value: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            let digits = [*rest.next()?, *rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(headers: &[(&str, &str)], body: &str) -> Result<Sent, Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        read(&map, &Bytes::copy_from_slice(body.as_bytes())).map_err(|refusal| refusal.0.code)
    }

    fn events(headers: &[(&str, &str)], body: &str) -> Vec<PublishRequest> {
        match sent(headers, body).unwrap() {
            Sent::Events(events) => events,
            Sent::Decision(_) => panic!("no decision was sent"),
        }
    }

    const ONE: &str = r#"{"specversion":"1.0","id":"1","source":"/drive","type":"drive.file_added","subject":"a b","data":{"size":3}}"#;

    #[test]
    fn an_event_is_the_same_in_all_three_modes() {
        let expected: PublishRequest = serde_json::from_str(ONE).unwrap();
        for (kind, body) in [
            ("application/cloudevents+json; charset=utf-8", ONE.to_owned()),
            ("application/json", ONE.to_owned()),
            ("application/json", format!("[{ONE}]")),
            ("application/cloudevents-batch+json", format!("[{ONE}]")),
        ] {
            assert_eq!(events(&[("content-type", kind)], &body), std::slice::from_ref(&expected), "{kind}");
        }
        let headers = [
            ("content-type", "application/json"),
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/drive"),
            ("ce-type", "drive.file_added"),
            ("ce-subject", "a%20b"),
        ];
        assert_eq!(events(&headers, r#"{"size":3}"#), [expected]);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let json = [("content-type", "application/json")];
        assert_eq!(sent(&json, r#"{"id":"1","id":"2"}"#).unwrap_err(), Code::MalformedJson);
        assert_eq!(sent(&json, r#"{"specversion":"1.0","id":"1","type":"a.b"}"#).unwrap_err(), Code::InvalidRequest);
        assert_eq!(sent(&[("content-type", "text/plain")], ONE).unwrap_err(), Code::UnsupportedMediaType);
        assert_eq!(sent(&[("content-type", "text/xml"), ("ce-specversion", "1.0")], "<a/>").unwrap_err(), Code::UnsupportedMediaType);
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(sent(&[("ce-specversion", "1.0"), ("ce-id", bad)], "").unwrap_err(), Code::InvalidRequest, "{bad}");
        }
        let decision = r#"{"type":"action.decision","data":{"tool_id":"files.list","params":{}}}"#;
        assert!(matches!(sent(&json, decision), Ok(Sent::Decision(_))));
        let large = decision.replace("{}", r#"{"n":9007199254740993}"#);
        assert_eq!(sent(&json, &large).unwrap_err(), Code::MalformedJson, "a call is signed");
        assert_eq!(sent(&json, &format!("[{decision}]")).unwrap_err(), Code::InvalidRequest);
    }
}
