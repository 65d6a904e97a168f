//! Request bodies: JSON, strictly read, bounded in size and in the time they may take.

use super::named::Named;
use super::problem::{Refusal, malformed};
use crate::limits::PACKAGE_BODY_BYTES_MAX;
use api::Code;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use countersign_core::limits::{BODY_BYTES_MAX, BODY_READ_SECONDS};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// A JSON body; absent or malformed is an error.
pub(super) struct Strict<T>(pub(super) T);

/// A JSON body that keeps every digit of 64-bit integers, for what is not signed as it is.
pub(super) struct Exact<T>(pub(super) T);

/// A JSON body that holds a package's files.
pub(super) struct Large<T>(pub(super) T);

/// A JSON body that may be absent.
pub(super) struct OrEmpty<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Strict<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        read_as(request, BODY_BYTES_MAX, parse).await.map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Exact<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        read_as(request, BODY_BYTES_MAX, parse_exact).await.map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Large<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        read_as(request, PACKAGE_BODY_BYTES_MAX, parse).await.map(Self)
    }
}

async fn read_as<T: DeserializeOwned>(
    request: Request,
    bytes_max: usize,
    parse: fn(&[u8]) -> Result<Value, Refusal>,
) -> Result<T, Refusal> {
    let typed = is_json(request.headers());
    let bytes = read(request.into_body(), bytes_max).await?;
    if !typed {
        return Err(Refusal::new(Code::UnsupportedMediaType, "the body must be JSON"));
    }
    shape(parse(&bytes)?)
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OrEmpty<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let typed = is_json(request.headers());
        let bytes = read(request.into_body(), BODY_BYTES_MAX).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        let mut again = Request::new(Body::from(bytes));
        if typed {
            again.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        }
        Strict::from_request(again, state).await.map(|Strict(body)| Self(body))
    }
}

/// Whether a body says that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

pub(super) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    let limited = Limited::new(body, bytes_max);
    match tokio::time::timeout(Duration::from_secs(BODY_READ_SECONDS), limited.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Refusal::new(Code::BodyTooLarge, format!("the body is larger than {bytes_max} bytes")))
        }
        Ok(Err(_)) => Err(Refusal::new(Code::InvalidRequest, "the body could not be read to its end")),
        Err(_) => Err(Refusal::new(Code::RequestTimeout, format!("the body did not arrive within {BODY_READ_SECONDS} seconds"))),
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    countersign_core::json::parse_strict(bytes).map_err(|error| malformed(&error))
}

pub(super) fn parse_exact(bytes: &[u8]) -> Result<Value, Refusal> {
    countersign_core::json::parse_exact(bytes).map_err(|error| malformed(&error))
}

pub(super) fn shape<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    T::deserialize(Named(value)).map_err(|error| {
        let error = in_words(&error.to_string());
        Refusal::new(Code::InvalidRequest, format!("the body does not have the expected shape: {error}"))
    })
}

/// The error without the names of our types of numbers.
fn in_words(error: &str) -> String {
    const NUMBERS: [(&str, &str); 6] = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number that is not negative"),
        ("i64", "a whole number"),
        ("f64", "a number"),
    ];
    let said = NUMBERS.into_iter().find_map(|(name, words)| Some((error.strip_suffix(format!("expected {name}").as_str())?, words)));
    said.map_or_else(|| error.to_owned(), |(what, words)| format!("{what}expected {words}"))
}
