//! Writes times in few words: how long ago, a countdown, or the time itself in UTC.

use super::counted;
use countersign_core::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `37 s ago`. A time in the future, possible if two clocks differ, is `just now`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.millis_since(at) / 1_000;
    match seconds {
        0 => "just now".to_owned(),
        1..MINUTE => format!("{seconds} s ago"),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        DAY.. => format!("{} d ago", seconds / DAY),
    }
}

/// A duration: `12 ms`, `1.2 s`, `3 min 20 s`.
pub(crate) fn lasting(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..MINUTE => format!("{seconds}.{} s", millis % 1_000 / 100),
        MINUTE..HOUR => format!("{} min {} s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE),
        DAY.. => format!("{} d {} h", seconds / DAY, seconds % DAY / HOUR),
    }
}

/// A duration in the largest unit that divides it evenly: `60 days`, `90 minutes`.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second")];
    let (length, unit) =
        units.into_iter().find(|(length, _)| seconds >= *length && seconds.is_multiple_of(*length)).unwrap_or((1, "second"));
    counted(seconds / length, unit, &format!("{unit}s"))
}

/// `4:59`, `23 h 05 min`, or `now` once the time has come.
pub(crate) fn countdown(at: Timestamp, now: Timestamp) -> String {
    // Rounded up, so that the last second is shown as 1 s and not as `now`.
    let seconds = at.millis_since(now).div_ceil(1_000);
    match seconds {
        0 => "now".to_owned(),
        1..HOUR => format!("{}:{:02}", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{} h {:02} min", seconds / HOUR, seconds % HOUR / MINUTE),
        DAY.. => format!("{} d {} h", seconds / DAY, seconds % DAY / HOUR),
    }
}

/// `2026-11-15 08:00:00Z`.
pub(crate) fn utc(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_763_164_800_000_000);

    fn moved(seconds: i64) -> Timestamp {
        Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)
    }

    #[test]
    fn the_past_is_told_in_its_largest_unit() {
        for (seconds, expected) in [
            (5, "just now"),
            (0, "just now"),
            (-1, "1 s ago"),
            (-59, "59 s ago"),
            (-60, "1 min ago"),
            (-3_599, "59 min ago"),
            (-3_600, "1 h ago"),
            (-86_399, "23 h ago"),
            (-86_400 * 3, "3 d ago"),
        ] {
            assert_eq!(ago(moved(seconds), NOW), expected);
        }
    }

    #[test]
    fn the_future_is_a_countdown() {
        for (seconds, expected) in [
            (-1, "now"),
            (0, "now"),
            (1, "0:01"),
            (299, "4:59"),
            (300, "5:00"),
            (3_600, "1 h 00 min"),
            (86_399, "23 h 59 min"),
            (200_000, "2 d 7 h"),
        ] {
            assert_eq!(countdown(moved(seconds), NOW), expected);
        }
    }

    #[test]
    fn a_span_is_told_in_the_unit_it_was_given_in() {
        for (seconds, expected) in [(0, "0 seconds"), (1, "1 second"), (5_400, "90 minutes"), (7_200, "2 hours"), (86_400 * 60, "60 days")]
        {
            assert_eq!(span(seconds), expected);
        }
    }

    #[test]
    fn what_something_took_is_told_as_precisely_as_it_matters() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (59_999, "59.9 s"),
            (200_000, "3 min 20 s"),
            (3_600_000 * 5, "5 h 0 min"),
            (86_400_000 * 2, "2 d 0 h"),
        ] {
            assert_eq!(lasting(millis), expected);
        }
    }

    #[test]
    fn utc_is_the_moment_to_the_second() {
        assert_eq!(utc(NOW), "2025-11-15 00:00:00Z");
    }
}
