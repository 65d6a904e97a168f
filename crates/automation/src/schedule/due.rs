//! What is due: what runs now, and what is left out and why. Called on every wake, after every restart and after every suspend alike, with
//! the database's time, so downtime is one thing whatever caused it.

use super::ticks::{At, Clock, SECONDS_MAX, second};
use super::{CatchUp, Schedule, Tick};
use countersign_core::Timestamp;
use countersign_core::limits::TICK_MISSED_SECONDS;
use serde::Serialize;

/// What to do now, and what to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// What runs, oldest first.
    pub start: Vec<Start>,
    /// What does not, at most one entry for each reason.
    pub skipped: Vec<Skipped>,
    /// The last tick that was handled, whatever became of it.
    pub high_water: Timestamp,
    /// When to ask again: at the next tick, even if it will only be recorded as skipped.
    pub next_due: Option<Timestamp>,
    /// A high-water that lay further ahead than a clock may be off, as it was found. Happens once, and is worth an event.
    pub corrected_from: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub tick: Tick,
    pub reason: StartReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StartReason {
    OnTime,
    CaughtUp,
}

/// Ticks that do not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub reason: SkipReason,
    pub count: u64,
    pub first: Tick,
    pub last: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Missed, and the schedule makes up for nothing.
    CatchUpNone,
    /// Missed, and a newer tick runs.
    Superseded,
    /// Missed, longer ago than the schedule makes up for.
    OutsideWindow,
    /// Missed, and more newer ones were than the schedule makes up for.
    OverMax,
    /// The clock jumped over it.
    DstGap,
}

impl Schedule {
    /// What became due after `high_water` and up to `now`. The work is bounded, however long ago the high-water is.
    pub fn due(&self, high_water: Timestamp, now: Timestamp) -> Due {
        // A high-water this far ahead was set by a clock that was wrong. All up to now was handled then.
        let corrected_from = (high_water > now.plus_seconds(TICK_MISSED_SECONDS)).then_some(high_water);
        let high_water = if corrected_from.is_some() { now } else { high_water };

        let to = second(now) + 1;
        let from = (second(high_water) + 1).max(to - SECONDS_MAX);
        let missed_to = first_second_of(now.minus_seconds(TICK_MISSED_SECONDS)).clamp(from.min(to), to);
        let on_time: Vec<At> = self.walk(missed_to, to).filter(fires).collect();
        let (caught_up, mut skipped) = self.make_up(from, missed_to, now, !on_time.is_empty());
        skipped.extend(self.jumped_over(from, to));

        let start = |reason| move |tick| Start { tick, reason };
        let caught_up = caught_up.into_iter().filter_map(|at| self.tick(at)).map(start(StartReason::CaughtUp));
        let on_time = on_time.into_iter().filter_map(|at| self.tick(at)).map(start(StartReason::OnTime));
        let newest = self.walk_back(from, to).next().and_then(|at| self.tick(at)).map(|tick| tick.scheduled_for);
        let high_water = newest.map_or(high_water, |newest| newest.max(high_water));
        Due {
            start: caught_up.chain(on_time).collect(),
            skipped,
            high_water,
            next_due: self.ticks(high_water.max(now), Timestamp::from_micros(i64::MAX), 1).pop().map(|tick| tick.scheduled_for),
            corrected_from,
        }
    }

    /// Which of the missed ticks run, and which do not.
    fn make_up(&self, from: i64, to: i64, now: Timestamp, one_is_on_time: bool) -> (Vec<At>, Vec<Skipped>) {
        let newest = |from: i64, max: usize| {
            let mut newest: Vec<At> = self.walk_back(from, to).filter(fires).take(max).collect();
            newest.reverse();
            newest
        };
        let older_than = |run: &[At]| run.first().map_or(to, |oldest| oldest.instant);
        match self.catch_up {
            CatchUp::None => (Vec::new(), self.missed(SkipReason::CatchUpNone, from, to).into_iter().collect()),
            CatchUp::Last => {
                let run = if one_is_on_time { Vec::new() } else { newest(from, 1) };
                let superseded = self.missed(SkipReason::Superseded, from, older_than(&run));
                (run, superseded.into_iter().collect())
            }
            CatchUp::All { max, window_seconds } => {
                let window = first_second_of(now.minus_seconds(window_seconds)).clamp(from.min(to), to);
                let run = newest(window, usize::try_from(max).unwrap_or(usize::MAX));
                let outside = self.missed(SkipReason::OutsideWindow, from, window);
                let over = self.missed(SkipReason::OverMax, window, older_than(&run));
                (run, outside.into_iter().chain(over).collect())
            }
        }
    }

    /// How many ticks there are after `after` and up to `until`, and when the first and the last of them are. None if there are none. The work
    /// is bounded, however far apart the two are.
    pub fn between(&self, after: Timestamp, until: Timestamp) -> Option<(u64, Timestamp, Timestamp)> {
        let to = second(until) + 1;
        let counted = self.counted((second(after) + 1).max(to - SECONDS_MAX), to);
        counted.map(|(count, first, last)| (count, first.scheduled_for, last.scheduled_for))
    }

    /// Missed ticks, from one instant on and before another. None if there are none.
    fn missed(&self, reason: SkipReason, from: i64, to: i64) -> Option<Skipped> {
        self.counted(from, to).map(|(count, first, last)| Skipped { reason, count, first, last })
    }

    fn counted(&self, from: i64, to: i64) -> Option<(u64, Tick, Tick)> {
        let first = self.walk(from, to).find(fires).and_then(|at| self.tick(at))?;
        let last = self.walk_back(from, to).find(fires).and_then(|at| self.tick(at))?;
        Some((self.count(from, to), first, last))
    }

    fn jumped_over(&self, from: i64, to: i64) -> Option<Skipped> {
        let skipped: Vec<At> = self.skipped(from, to).collect();
        let (first, last) = (self.tick(*skipped.first()?)?, self.tick(*skipped.last()?)?);
        Some(Skipped { reason: SkipReason::DstGap, count: skipped.len() as u64, first, last })
    }
}

fn fires(at: &At) -> bool {
    at.clock != Clock::Skipped
}

/// The first whole second that is not before an instant.
fn first_second_of(at: Timestamp) -> i64 {
    second(Timestamp::from_micros(at.as_micros().saturating_sub(1))) + 1
}
