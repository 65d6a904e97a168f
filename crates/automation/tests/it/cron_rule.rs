//! The rule of `docs/concepts/schedules.md`, stated a second time and naively: minute by minute, over real instants and over the wall-clock
//! times that no clock showed. It shares no line with the implementation, and does not read expressions: it makes them from the values
//! they mean. The tests compare samples, and the example `cron_truth` compares the whole table.

use automation::schedule::{Clock, Schedule};
use countersign_core::Timestamp;
use jiff::civil::{Date, DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, ToSpan};
use serde_json::json;

pub(crate) const GAPS: [&str; 2] = ["shift", "skip"];
pub(crate) const OVERLAPS: [&str; 3] = ["first", "last", "both"];

/// An expression and what it means.
pub(crate) struct Made {
    pub(crate) text: String,
    minutes: [bool; 60],
    hours: [bool; 24],
    days: Days,
    months: [bool; 13],
    weekdays: Weekdays,
    pub(crate) interval: bool,
}

enum Days {
    Any,
    These([bool; 32]),
    Last,
    LastWorking,
    NearestWorking(i8),
}

enum Weekdays {
    Any,
    /// From Sunday on.
    These([bool; 7]),
    Nth(i8, i8),
    LastOf(i8),
}

impl Made {
    pub(crate) fn time_matches(&self, minute_of_day: usize) -> bool {
        self.hours[minute_of_day / 60] && self.minutes[minute_of_day % 60]
    }

    pub(crate) fn date_matches(&self, date: Date) -> bool {
        let working = |date: Date| date.weekday().to_monday_zero_offset() < 5;
        let weekday = date.weekday().to_sunday_zero_offset();
        let by_day = match &self.days {
            Days::Any => true,
            Days::These(days) => days[date.day() as usize],
            Days::Last => date == date.last_of_month(),
            Days::LastWorking => {
                let days = (1..=date.days_in_month()).rev().map(|day| date.with().day(day).build().unwrap());
                days.into_iter().find(|day| working(*day)) == Some(date)
            }
            Days::NearestWorking(wanted) => {
                // The working day of the month with the smallest distance. From a Saturday that is the day before, from a Sunday the day
                // after: only one of both neighbours works.
                let distance = |day: i8| (day - wanted).abs();
                let days = (1..=date.days_in_month()).filter(|day| working(date.with().day(*day).build().unwrap()));
                *wanted <= date.days_in_month() && days.min_by_key(|day| distance(*day)) == Some(date.day())
            }
        };
        let by_weekday = match &self.weekdays {
            Weekdays::Any => true,
            Weekdays::These(days) => days[weekday as usize],
            Weekdays::Nth(wanted, nth) => {
                weekday == *wanted
                    && (1..=date.day()).filter(|day| date.with().day(*day).build().unwrap().weekday() == date.weekday()).count()
                        == *nth as usize
            }
            Weekdays::LastOf(wanted) => weekday == *wanted && date.checked_add(7.days()).unwrap().month() != date.month(),
        };
        let day = match (&self.days, &self.weekdays) {
            (Days::Any, _) | (_, Weekdays::Any) => by_day && by_weekday,
            _ => by_day || by_weekday,
        };
        self.months[date.month() as usize] && day
    }

    pub(crate) fn schedule(&self, zone: &str, gap: &str, overlap: &str) -> Schedule {
        let config = json!({ "cron": self.text, "timezone": zone, "catch_up": "none", "dst_gap": gap, "dst_overlap": overlap });
        Schedule::parse(&config).unwrap()
    }
}

/// The same numbers for the same seed, on every machine.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// Expressions that fire, of every shape. Hours of the night, in which clocks change, are frequent.
pub(crate) fn expressions(seed: u64, count: usize) -> Vec<Made> {
    let dice = &mut Dice(seed);
    let mut made: Vec<Made> = Vec::new();
    while made.len() < count {
        let one = expression(dice);
        // One that means no date is refused, as another test says.
        let mut days = date(2026, 1, 1).series(1.day()).take_while(|day| day.year() < 2034);
        if days.any(|day| one.date_matches(day)) {
            made.push(one);
        }
    }
    made
}

fn expression(dice: &mut Dice) -> Made {
    let (minute_text, minutes) = values(dice, 0, 59, &[0, 1, 15, 30, 45, 59]);
    let (hour_text, hours) = values(dice, 0, 23, &[0, 1, 2, 3, 4, 22, 23]);
    let (month_text, months) = if dice.below(3) == 0 { values(dice, 1, 12, &[3, 4, 10, 11]) } else { ("*".to_owned(), vec![true; 13]) };
    let (day_text, days) = match dice.below(12) {
        0 => ("L".to_owned(), Days::Last),
        1 => ("LW".to_owned(), Days::LastWorking),
        2 => {
            let day = dice.below(31) + 1;
            (format!("{day}W"), Days::NearestWorking(day as i8))
        }
        3..6 => match values(dice, 1, 31, &[1, 8, 25, 28, 29, 30, 31]) {
            (text, _) if text == "*" => (text, Days::Any),
            (text, days) => (text, Days::These(days.try_into().unwrap())),
        },
        _ => ("*".to_owned(), Days::Any),
    };
    let (weekday_text, weekdays) = match dice.below(12) {
        0 => {
            let (day, nth) = (dice.below(7), dice.below(5) + 1);
            (format!("{day}#{nth}"), Weekdays::Nth(day as i8, nth as i8))
        }
        1 => {
            let day = dice.below(7);
            (format!("{day}L"), Weekdays::LastOf(day as i8))
        }
        2..6 => match values(dice, 0, 7, &[0, 6, 7]) {
            (text, _) if text == "*" => (text, Weekdays::Any),
            (text, mut days) => {
                // Sunday has two numbers.
                days[0] |= days[7];
                days.truncate(7);
                (text, Weekdays::These(days.try_into().unwrap()))
            }
        },
        _ => ("*".to_owned(), Weekdays::Any),
    };
    Made {
        interval: [&minute_text, &hour_text].iter().any(|text| text.contains('*') || text.contains('/')),
        text: format!("{minute_text} {hour_text} {day_text} {month_text} {weekday_text}"),
        minutes: minutes.try_into().unwrap(),
        hours: hours.try_into().unwrap(),
        days,
        months: months.try_into().unwrap(),
        weekdays,
    }
}

/// A field, as it is written and as the values it means, by their number.
fn values(dice: &mut Dice, min: usize, max: usize, likely: &[usize]) -> (String, Vec<bool>) {
    let mut meant = vec![false; max + 1];
    let mut texts = Vec::new();
    let shape = dice.below(10);
    if shape == 0 {
        meant[min..].fill(true);
        return ("*".to_owned(), meant);
    }
    for _ in 0..if shape < 4 { dice.below(3) + 2 } else { 1 } {
        let one = |dice: &mut Dice| if dice.below(2) == 0 { likely[dice.below(likely.len())] } else { min + dice.below(max - min + 1) };
        let (first, last) = (one(dice), one(dice));
        let (first, last) = (first.min(last), first.max(last));
        let step = if last > first { dice.below(last - first) + 1 } else { 1 };
        let (text, step, range) = match dice.below(if shape < 8 { 3 } else { 6 }) {
            0 | 1 => (format!("{first}"), 1, first..=first),
            2 => (format!("{first}-{last}"), 1, first..=last),
            3 if last > first => (format!("{first}-{last}/{step}"), step, first..=last),
            _ => {
                let step = dice.below((max - min).min(30)) + 1;
                (format!("*/{step}"), step, min..=max)
            }
        };
        range.step_by(step).for_each(|value| meant[value] = true);
        texts.push(text);
    }
    (texts.join(","), meant)
}

/// A piece of time in one zone, minute by minute.
pub(crate) struct Window {
    pub(crate) from: i64,
    /// The first instant that is not in it.
    pub(crate) to: i64,
    shown: Vec<Shown>,
    missing: Vec<Missing>,
}

/// A real minute and what the clock showed.
struct Shown {
    instant: i64,
    wall: DateTime,
    /// Which of two instants it is, if the clock showed this twice.
    twin: Option<Twin>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Twin {
    First,
    Last,
}

/// A minute that the clock never showed, and the first real instant after it.
struct Missing {
    wall: DateTime,
    instant: i64,
}

/// One tick: the instant, the wall-clock time, and what the clock did to it.
pub(crate) type Told = (i64, DateTime, Clock);

impl Window {
    /// Both instants are whole minutes.
    pub(crate) fn new(zone: &TimeZone, from: i64, to: i64) -> Self {
        let showed = |instant: i64| zone.to_datetime(jiff::Timestamp::from_second(instant).unwrap());
        let minutes = (from..to).step_by(60);
        let shown = minutes.map(|instant| {
            let wall = showed(instant);
            let twin = match zone.to_ambiguous_timestamp(wall).offset() {
                AmbiguousOffset::Fold { before, after } => {
                    let instants = [before, after].map(|offset| offset.to_timestamp(wall).unwrap().as_second());
                    Some(if instants.iter().all(|other| instant <= *other) { Twin::First } else { Twin::Last })
                }
                AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => None,
            };
            Shown { instant, wall, twin }
        });
        let walls = showed(from).series(1.minute()).take_while(|wall| *wall < showed(to));
        let missing = walls.filter_map(|wall| {
            let is_missing = |wall: DateTime| matches!(zone.to_ambiguous_timestamp(wall).offset(), AmbiguousOffset::Gap { .. });
            let after = is_missing(wall).then(|| wall.series(1.minute()).find(|later| !is_missing(*later)))??;
            Some(Missing { wall, instant: zone.to_timestamp(after).unwrap().as_second() })
        });
        Self { from, to, shown: shown.collect(), missing: missing.collect() }
    }

    /// Before and after a change of the clock, over a midnight on both sides or on one.
    pub(crate) fn around(zone: &TimeZone, change: i64) -> Self {
        Self::new(zone, change - 14 * 3600, change + 14 * 3600)
    }

    pub(crate) fn has_gap(&self) -> bool {
        !self.missing.is_empty()
    }

    pub(crate) fn has_overlap(&self) -> bool {
        self.shown.iter().any(|shown| shown.twin.is_some())
    }

    /// The rule.
    pub(crate) fn ticks(&self, made: &Made, gap: &str, overlap: &str, date_matches: &impl Fn(Date) -> bool) -> Vec<Told> {
        let matches = |wall: DateTime| made.time_matches(wall.hour() as usize * 60 + wall.minute() as usize) && date_matches(wall.date());
        let mut ticks: Vec<Told> = Vec::new();
        if !made.interval {
            for missing in self.missing.iter().filter(|missing| matches(missing.wall)) {
                match gap {
                    // Several that are shifted onto one instant are one.
                    "shift" if ticks.iter().any(|(instant, ..)| *instant == missing.instant) => {}
                    "shift" => ticks.push((missing.instant, missing.wall, Clock::Shifted)),
                    _ => ticks.push((missing.instant, missing.wall, Clock::Skipped)),
                }
            }
        }
        let shifted = ticks.iter().find(|(.., clock)| *clock == Clock::Shifted).map(|(instant, ..)| *instant);
        for shown in self.shown.iter().filter(|shown| Some(shown.instant) != shifted && matches(shown.wall)) {
            let fires = match (made.interval, shown.twin, overlap) {
                (true, ..) | (_, None, _) | (_, _, "both") => true,
                (_, Some(Twin::First), overlap) => overlap == "first",
                (_, Some(Twin::Last), overlap) => overlap == "last",
            };
            if fires {
                ticks.push((shown.instant, shown.wall, Clock::Showed));
            }
        }
        ticks.sort_by_key(|(instant, ..)| *instant);
        ticks
    }
}

/// What the implementation says of the same time.
pub(crate) fn told(schedule: &Schedule, from: i64, to: i64) -> Vec<Told> {
    let (after, until) = (Timestamp::from_micros(from * 1_000_000 - 1), Timestamp::from_micros(to * 1_000_000 - 1));
    let ticks = schedule.ticks(after, until, usize::MAX);
    ticks.into_iter().map(|tick| (tick.scheduled_for.as_micros() / 1_000_000, tick.wall, tick.clock)).collect()
}

/// The instants at which the clock of a zone jumps, within some years.
pub(crate) fn changes(zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
    let at = |second: i64| jiff::Timestamp::from_second(second).unwrap();
    let jumps = |change: i64| zone.to_offset(at(change)) != zone.to_offset(at(change) - SignedDuration::from_secs(1));
    let changes = zone.following(at(from)).map(|change| change.timestamp().as_second());
    changes.take_while(|change| *change < to).filter(|change| jumps(*change)).collect()
}

/// The first instant of a year, in UTC.
pub(crate) fn year(year: i16) -> i64 {
    date(year, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp().as_second()
}
