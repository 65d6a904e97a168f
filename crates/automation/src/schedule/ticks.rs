//! From wall-clock times to instants, by the written rule. Between two changes of a clock this is one addition; what a change does to a
//! fixed time is in `parts`, and nowhere else.

use super::zone::INSTANTS;
use super::{DstGap, DstOverlap, Schedule, cron};
use countersign_core::Timestamp;
use jiff::civil::DateTime;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// One time at which a schedule fires, or would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tick {
    pub scheduled_for: Timestamp,
    /// The wall-clock time that the expression means. A clock that jumped never showed it: then `clock` says what became of it.
    #[serde(serialize_with = "in_text")]
    pub wall: DateTime,
    pub zone: Arc<str>,
    pub clock: Clock,
}

/// What the zone's clock did to a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// It showed the time of the tick.
    Showed,
    /// It jumped over it, so the tick is at the first instant after the jump, with all others that were jumped over.
    Shifted,
    /// It jumped over it, and the schedule says to skip that. Nothing fires.
    Skipped,
}

impl Schedule {
    /// What is after `after` and not after `until`, oldest first and no more than `limit`. Skipped ticks are among them.
    pub fn ticks(&self, after: Timestamp, until: Timestamp, limit: usize) -> Vec<Tick> {
        self.walk(second(after) + 1, second(until) + 1).take(limit).filter_map(|at| self.tick(at)).collect()
    }

    /// The next time at which it fires. None if that is further away than a lifetime.
    pub fn next_after(&self, after: Timestamp) -> Option<Tick> {
        self.upcoming(after).next()
    }

    /// What a person is shown to see whether the schedule is the one they meant.
    pub fn next_three(&self, after: Timestamp) -> Vec<Tick> {
        self.upcoming(after).take(3).collect()
    }

    fn upcoming(&self, after: Timestamp) -> impl Iterator<Item = Tick> + use<'_> {
        let from = second(after) + 1;
        self.walk(from, from.saturating_add(SECONDS_MAX)).filter(|at| at.clock != Clock::Skipped).filter_map(|at| self.tick(at))
    }

    /// The ticks from one instant on and before another, ascending.
    pub(super) fn walk(&self, from: i64, to: i64) -> impl Iterator<Item = At> + use<'_> {
        self.parts(from, to).flat_map(|part| self.ticks_of(part))
    }

    /// The same, the newest first.
    pub(super) fn walk_back(&self, from: i64, to: i64) -> impl Iterator<Item = At> + use<'_> {
        let parts: Vec<Part> = self.parts(from, to).collect();
        parts.into_iter().rev().flat_map(|part| self.ticks_of(part).rev())
    }

    /// How many of them fire. Costs a look at each day, however many ticks it has.
    pub(super) fn count(&self, from: i64, to: i64) -> u64 {
        let of_part = |part: Part| {
            let fire = |at: &At| at.clock != Clock::Skipped;
            self.ticks_in_gap(part).iter().filter(|at| fire(at)).count() as u64 + self.cron.count(self.shown_from(part), part.to)
        };
        self.parts(from, to).map(of_part).sum()
    }

    /// Those that the clock jumped over and that do not fire.
    pub(super) fn skipped(&self, from: i64, to: i64) -> impl Iterator<Item = At> + use<'_> {
        self.parts(from, to).flat_map(|part| self.ticks_in_gap(part)).filter(|at| at.clock == Clock::Skipped)
    }

    pub(super) fn tick(&self, at: At) -> Option<Tick> {
        let scheduled_for = Timestamp::from_micros(at.instant.checked_mul(1_000_000)?);
        Some(Tick { scheduled_for, wall: cron::wall(at.wall)?, zone: self.zone.name.clone(), clock: at.clock })
    }

    /// The rule. An interval fires at every real instant whose wall-clock time matches. A fixed time fires once for each day it is
    /// written for, so what a clock repeats or leaves out is decided here.
    fn parts(&self, from: i64, to: i64) -> impl Iterator<Item = Part> + use<'_> {
        let from = from.clamp(INSTANTS.start, INSTANTS.end);
        let to = to.clamp(from, from.saturating_add(SECONDS_MAX)).min(INSTANTS.end);
        let fixed = !self.cron.fields().is_interval();
        let overlap = self.dst_overlap;
        self.zone.stretches(from).take_while(move |stretch| stretch.start < to).map(move |stretch| {
            let offset = stretch.offset;
            let mut part = Part { offset, from: stretch.start.max(from) + offset, to: stretch.end.min(to) + offset, gap: None };
            if !fixed {
                return part;
            }
            if stretch.offset_before > offset && overlap == DstOverlap::First {
                // The stretch before has already shown these times.
                part.from = part.from.max(stretch.start + stretch.offset_before);
            }
            if stretch.offset_after < offset && overlap == DstOverlap::Last {
                // The next stretch will show these times again.
                part.to = part.to.min(stretch.end + stretch.offset_after);
            }
            if stretch.offset_before < offset && stretch.start >= from {
                part.gap = Some(stretch.start + stretch.offset_before);
            }
            part
        })
    }

    fn ticks_of(&self, part: Part) -> impl DoubleEndedIterator<Item = At> + use<'_> {
        let showed = move |wall: i64| At { instant: wall - part.offset, wall, clock: Clock::Showed };
        self.ticks_in_gap(part).into_iter().chain(self.cron.between(self.shown_from(part), part.to).map(showed))
    }

    /// Those that the clock jumped over at the start of the part.
    fn ticks_in_gap(&self, part: Part) -> Vec<At> {
        let Some(first_missing) = part.gap else { return Vec::new() };
        let missing = self.cron.between(first_missing, part.from);
        let at = |clock| move |wall: i64| At { instant: part.from - part.offset, wall, clock };
        match self.dst_gap {
            DstGap::Shift => missing.take(1).map(at(Clock::Shifted)).collect(),
            DstGap::Skip => missing.map(at(Clock::Skipped)).collect(),
        }
    }

    /// Where the times begin that the clock showed and that are ticks of their own: one at the instant onto which others were shifted
    /// fires with them.
    fn shown_from(&self, part: Part) -> i64 {
        let shifted = self.dst_gap == DstGap::Shift
            && part.gap.is_some_and(|first_missing| self.cron.between(first_missing, part.from).next().is_some());
        if shifted { part.from + 1 } else { part.from }
    }
}

/// A tick in numbers: seconds since 1970, of instants and on the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) instant: i64,
    pub(super) wall: i64,
    pub(super) clock: Clock,
}

/// The wall-clock times of one stretch that are ticks.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: i64,
    from: i64,
    /// The first that is none.
    to: i64,
    /// The first time that the clock jumped over to get to `from`.
    gap: Option<i64>,
}

/// How far is looked in one go, in seconds: a hundred years. This bounds the work for a clock that is far off.
pub(super) const SECONDS_MAX: i64 = 100 * 366 * 24 * 60 * 60;

/// The whole second that an instant is in.
pub(super) fn second(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

fn in_text<S: Serializer>(wall: &DateTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(wall)
}
