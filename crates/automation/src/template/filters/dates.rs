//! `date`: a time, written in a zone and in a form.

use super::arguments::{Arguments, Given};
use crate::limits::TEMPLATE_OUTPUT_BYTES_MAX;
use crate::template::json::{failed, too_large};
use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use minijinja::{Error, Value};
use std::sync::LazyLock;

/// The zones of this build, not those of the host: a worker cannot read files, and a template renders the same everywhere.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Takes a time or a date in ISO form, or seconds since 1970. Without a zone it is in UTC. The default form is the date.
pub(super) fn date(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, ["format", "tz"])?;
    let form = arguments.text(0)?.unwrap_or_else(|| "%Y-%m-%d".to_owned());
    let zone = match arguments.text(1)? {
        None => TimeZone::UTC,
        Some(name) => zone_of(&name)?,
    };
    let at = instant(&arguments.value)?;
    let at: Zoned = at.to_zoned(zone);
    let text = strtime::format(&form, &at).map_err(|error| failed(format!("the form of a date: {error}")))?;
    if text.len() > TEMPLATE_OUTPUT_BYTES_MAX { Err(too_large("a date")) } else { Ok(text) }
}

pub(super) fn zone_of(name: &str) -> Result<TimeZone, Error> {
    ZONES.get(name).map_err(|_| failed(format!("there is no time zone `{name}`")))
}

fn instant(value: &Value) -> Result<Timestamp, Error> {
    let Some(text) = value.as_str() else {
        let seconds = if value.is_integer() { value.as_i64() } else { None };
        let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        return at.ok_or_else(|| failed("`date` takes a time in ISO form, or whole seconds since 1970"));
    };
    let at = text.parse::<Timestamp>().ok();
    let at = at.or_else(|| text.parse::<DateTime>().ok().and_then(in_utc));
    let at = at.or_else(|| text.parse::<Date>().ok().and_then(|date| in_utc(date.to_datetime(jiff::civil::Time::midnight()))));
    at.ok_or_else(|| failed("`date` takes a time in ISO form, such as `2026-11-15T08:00:00Z`"))
}

fn in_utc(at: DateTime) -> Option<Timestamp> {
    TimeZone::UTC.to_timestamp(at).ok()
}
