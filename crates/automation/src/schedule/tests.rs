//! The rows of the hard cases that are about schedules, one by one. The whole rule is compared with a naive one in `tests/it`.

mod dst;
mod due;
mod mistakes;
mod words;

use super::*;
use countersign_core::Timestamp;

/// A schedule with these members beside `cron` and `timezone`.
fn schedule(cron: &str, timezone: &str, more: Value) -> Schedule {
    let mut config = json!({ "cron": cron, "timezone": timezone });
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    Schedule::parse(&config).unwrap()
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// As short as it can be told apart: `2026-03-08T07:00Z`.
fn short(at: Timestamp) -> String {
    at.to_string().replace(":00.000000Z", "Z")
}

/// The ticks from one instant up to another, as `instant wall clock`.
fn told(schedule: &Schedule, after: &str, until: &str) -> Vec<String> {
    let tell = |tick: Tick| {
        let clock = match tick.clock {
            Clock::Showed => "",
            Clock::Shifted => " shifted",
            Clock::Skipped => " skipped",
        };
        let wall = tick.wall.to_string();
        format!("{} {}{clock}", short(tick.scheduled_for), wall.strip_suffix(":00").unwrap_or(&wall))
    };
    schedule.ticks(at(after), at(until), 100).into_iter().map(tell).collect()
}
