//! Queries: pages by cursor, and how long to wait for a change.

use super::problem::Refusal;
use crate::limits::MOMENT_SECONDS_MAX;
use api::Code;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use countersign_core::Timestamp;
use countersign_core::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, WAIT_SECONDS_MAX};
use operations::App;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use store::PageRequest;
use utoipa::IntoParams;

/// A query whose every key is known.
pub struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Query::<T>::try_from_uri(&parts.uri)
            .map(|Query(query)| Self(query))
            .map_err(|error| Refusal::new(Code::InvalidQuery, format!("the query does not make sense: {}", innermost(&error))))
    }
}

/// The innermost error: it says what is wrong with which key; the rest is the way there.
pub(super) fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut why = error;
    while let Some(source) = why.source() {
        why = source;
    }
    why
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Holds the answer back until it is final, at most this long: `30s`, up to `60s`.
    wait: Option<String>,
}

impl PageQuery {
    pub(super) fn request(self) -> Result<PageRequest, Refusal> {
        page_request(self.limit, self.after)
    }
}

/// What a filter says, read.
pub(super) fn wanted<T>(text: &str, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Refusal> {
    parse(text).ok_or_else(|| Refusal::new(Code::InvalidQuery, format!("`{name}` does not make sense")))
}

/// Reads a moment: a time such as `2026-01-31T12:00:00Z`, or how long ago it was, such as `24h`.
pub(super) fn moment(app: &App, name: &str, text: &str) -> Result<Timestamp, Refusal> {
    let ago = || Some(app.parts.clock.now().minus_seconds(seconds_of(name, text, MOMENT_SECONDS_MAX).ok()?));
    let unclear = || format!("`{name}` must be a time such as `2026-01-31T12:00:00Z`, or how long ago it was, such as `24h` or `7d`");
    Timestamp::parse(text).or_else(ago).ok_or_else(|| Refusal::new(Code::InvalidQuery, unclear()))
}

pub(super) fn page_request(limit: Option<u32>, after: Option<String>) -> Result<PageRequest, Refusal> {
    let limit = limit.unwrap_or(PAGE_ROWS_DEFAULT);
    if !(1..=PAGE_ROWS_MAX).contains(&limit) {
        return Err(Refusal::new(Code::InvalidQuery, format!("`limit` must be 1 to {PAGE_ROWS_MAX}")));
    }
    if after.as_ref().is_some_and(|after| after.len() > 256 || after.contains('\0')) {
        return Err(Refusal::new(Code::InvalidQuery, "`after` is not a cursor of ours"));
    }
    Ok(PageRequest { limit, after })
}

impl WaitQuery {
    pub(super) fn duration(self) -> Result<Duration, Refusal> {
        let Some(text) = self.wait else {
            return Ok(Duration::ZERO);
        };
        let millis = text.strip_suffix("ms").map(|number| number.parse::<u64>().ok());
        let millis = millis.unwrap_or_else(|| text.strip_suffix('s').unwrap_or(&text).parse::<u64>().ok()?.checked_mul(1_000));
        match millis {
            Some(millis) if millis <= WAIT_SECONDS_MAX * 1_000 => Ok(Duration::from_millis(millis)),
            _ => Err(Refusal::new(Code::InvalidQuery, format!("`wait` must be a time such as `30s`, at most {WAIT_SECONDS_MAX}s"))),
        }
    }
}

/// Reads a time such as `90s`, `30m`, `2h` or `7d`, at most `max_seconds`.
pub(super) fn seconds_of(name: &str, text: &str, max_seconds: u64) -> Result<u64, Refusal> {
    let unit = |suffix: char| match suffix {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(60 * 60),
        'd' => Some(24 * 60 * 60),
        _ => None,
    };
    let seconds = text.chars().last().and_then(|suffix| {
        let number = text[..text.len() - suffix.len_utf8()].parse::<u64>().ok()?;
        number.checked_mul(unit(suffix)?)
    });
    seconds.filter(|seconds| *seconds <= max_seconds).ok_or_else(|| {
        let most = match max_seconds / 3_600 {
            hours if hours % 24 == 0 && hours > 24 => format!("{} days", hours / 24),
            hours => format!("{hours} hours"),
        };
        let message = format!("`{name}` must be a time such as `30m`, `2h` or `7d`, at most {most}");
        Refusal::new(Code::InvalidRequest, message)
    })
}
