//! A point in time: integer microseconds since 1970 in UTC, printed as RFC 3339.

use std::fmt;

/// Microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Saturates instead of wrapping, so that a far deadline stays in the future.
    pub const fn plus_seconds(self, seconds: u64) -> Self {
        let micros = if seconds > (i64::MAX / 1_000_000) as u64 { i64::MAX } else { seconds as i64 * 1_000_000 };
        Self(self.0.saturating_add(micros))
    }

    pub const fn minus_seconds(self, seconds: u64) -> Self {
        let micros = if seconds > (i64::MAX / 1_000_000) as u64 { i64::MAX } else { seconds as i64 * 1_000_000 };
        Self(self.0.saturating_sub(micros))
    }

    /// Whole milliseconds from `earlier` to `self`; zero if the clock went backwards.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        let micros = self.0.saturating_sub(earlier.0);
        if micros < 0 { 0 } else { (micros / 1_000) as u64 }
    }

    /// `2026-11-18 09:30 UTC`: for pages and mails, where nobody needs more.
    pub fn to_minute(self) -> String {
        let text = self.to_string();
        match (text.get(..10), text.get(11..16)) {
            (Some(day), Some(minute)) if text.ends_with('Z') => format!("{day} {minute} UTC"),
            _ => text,
        }
    }

    /// Reads RFC 3339, such as `2026-11-15T08:00:00Z`.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_microsecond()))
    }
}

/// RFC 3339 in UTC, always with six decimals, so that texts sort by time.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not an RFC 3339 time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_six_decimals_and_reads_itself_back() {
        for micros in [0, 1, 999_999, 1_763_164_800_000_000, 1_763_164_800_123_456] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        }
        assert_eq!(Timestamp::from_micros(1_763_164_800_120_000).to_string(), "2025-11-15T00:00:00.120000Z");
    }

    #[test]
    fn people_read_minutes() {
        assert_eq!(Timestamp::parse("2026-11-18T09:30:59.999999Z").unwrap().to_minute(), "2026-11-18 09:30 UTC");
        // What is no date is printed as it is.
        assert_eq!(Timestamp::from_micros(i64::MAX).to_minute(), Timestamp::from_micros(i64::MAX).to_string());
    }
}
