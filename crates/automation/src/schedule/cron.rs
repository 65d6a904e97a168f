//! Which wall-clock times an expression means, on a clock that never jumps. The expression is read by croner, which also says which days
//! match. Times of a day are a list, so counting a year of minutes costs a look at each of its days.
//! A wall-clock time is a number here: the seconds since 1970-01-01T00:00 on the wall.

use super::fields::Fields;
use crate::Mistake;
use croner::Weekday;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const DAY: i64 = 24 * 60 * 60;

/// An expression that means at least one time.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    fields: Fields,
    parsed: croner::Cron,
    /// The seconds of a day at which it fires, ascending.
    times: Vec<i64>,
}

impl Cron {
    pub(super) fn parse(expression: &str) -> Result<Self, Vec<Mistake>> {
        let chars_max = crate::limits::CRON_CHARS_MAX;
        if expression.chars().count() > chars_max {
            return Err(vec![
                Mistake::new("cron_invalid", format!("the expression is longer than {chars_max} characters"))
                    .hint("use ranges and steps in place of lists"),
            ]);
        }
        let fields = Fields::read(expression)?;
        // Everything that croner could refuse is refused before; what it says is kept for the case that it knows better.
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let parsed = parser.parse(&fields.text()).map_err(|error| {
            vec![Mistake::new("cron_invalid", error.to_string().to_lowercase()).hint("write five fields such as `0 9 * * 1-5`")]
        })?;
        let minutes = parsed.pattern.minutes.values();
        let times = parsed.pattern.hours.values().into_iter();
        let times = times.flat_map(|hour| minutes.iter().map(move |minute| i64::from(hour) * 3600 + i64::from(*minute) * 60)).collect();
        let cron = Self { fields, parsed, times };
        if cron.between(LOOKED_AT.0, LOOKED_AT.1).next().is_none() {
            return Err(vec![
                Mistake::new("cron_never_fires", format!("`{}` means no date within eight years", cron.expression()))
                    .hint("check the day of the month against the months"),
            ]);
        }
        Ok(cron)
    }

    /// The five fields, in upper case.
    pub(super) fn expression(&self) -> String {
        self.fields.text()
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(super) fn times(&self) -> &[i64] {
        &self.times
    }

    pub(super) fn weekdays(&self) -> Vec<u16> {
        self.parsed.pattern.days_of_week.values()
    }

    pub(super) fn days_of_month(&self) -> Vec<u16> {
        self.parsed.pattern.days.values()
    }

    pub(super) fn months(&self) -> Vec<u16> {
        self.parsed.pattern.months.values()
    }

    /// The wall-clock times from `from` on and before `to`, ascending.
    pub(super) fn between(&self, from: i64, to: i64) -> impl DoubleEndedIterator<Item = i64> + use<'_> {
        days(from, to).filter(|day| self.matches(*day)).flat_map(move |day| {
            let midnight = day * DAY;
            self.times_between(from - midnight, to - midnight).iter().map(move |time| midnight + time)
        })
    }

    /// How many of them there are.
    pub(super) fn count(&self, from: i64, to: i64) -> u64 {
        let of_day = |day: i64| self.times_between(from - day * DAY, to - day * DAY).len() as u64;
        days(from, to).filter(|day| self.matches(*day)).map(of_day).sum()
    }

    fn times_between(&self, from: i64, to: i64) -> &[i64] {
        let first = self.times.partition_point(|time| *time < from);
        let end = self.times.partition_point(|time| *time < to);
        self.times.get(first..end).unwrap_or_default()
    }

    /// Whether it fires on this day, counted from 1970-01-01.
    fn matches(&self, day: i64) -> bool {
        let Some(date) = wall(day * DAY).map(DateTime::date) else { return false };
        let (year, month, of_month) = (i32::from(date.year()), date.month().unsigned_abs().into(), date.day().unsigned_abs().into());
        let weekday = Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        let pattern = &self.parsed.pattern;
        pattern.month_match(month).unwrap_or(false) && pattern.day_match(year, month, of_month, weekday).unwrap_or(false)
    }

    /// A schedule this frequent often looks for something that an event would tell.
    pub(super) fn warning(&self) -> Option<Mistake> {
        let often = i64::from(crate::limits::SCHEDULE_OFTEN_SECONDS);
        let within_a_day = self.times.windows(2).any(|pair| pair[1] - pair[0] < often);
        let over_midnight = || {
            let (Some(first), Some(last)) = (self.times.first(), self.times.last()) else { return false };
            first + DAY - last < often && days(LOOKED_AT.0, LOOKED_AT.1).any(|day| self.matches(day) && self.matches(day + 1))
        };
        (within_a_day || over_midnight()).then(|| {
            Mistake::new("schedule_frequent", "the schedule fires more often than every 15 minutes")
                .hint("if it looks for something new, an event trigger starts at once and costs less")
        })
    }
}

/// The eight years from 2026 on, in which an expression must fire. They are the same for ever, so that what was saved stays valid. Two of
/// them have a 29 February.
const LOOKED_AT: (i64, i64) = (1_767_225_600, 1_767_225_600 + (8 * 365 + 2) * DAY);

/// The days that have a part between two wall-clock times.
fn days(from: i64, to: i64) -> std::ops::Range<i64> {
    if from < to { from.div_euclid(DAY)..(to - 1).div_euclid(DAY) + 1 } else { 0..0 }
}

/// A wall-clock time as people write it.
pub(super) fn wall(seconds: i64) -> Option<DateTime> {
    // The number is that of an instant at which a clock of UTC would show this time.
    Timestamp::from_second(seconds).ok().map(|at| Offset::UTC.to_datetime(at))
}
