//! The five fields of a cron expression, read strictly: what a lenient reader would quietly make something else of is a mistake here.

use crate::Mistake;

/// The fields of an expression that passed, in upper case.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) minute: String,
    pub(super) hour: String,
    pub(super) day: String,
    pub(super) month: String,
    pub(super) weekday: String,
}

impl Fields {
    pub(super) fn read(expression: &str) -> Result<Self, Vec<Mistake>> {
        let expression = expression.trim().to_ascii_uppercase();
        if let Some(nickname) = expression.strip_prefix('@') {
            return Self::of_nickname(nickname).ok_or_else(|| vec![unknown_nickname(&expression)]);
        }
        let texts: Vec<&str> = expression.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = texts[..] else { return Err(vec![wrong_number(&texts)]) };
        let mistakes: Vec<Mistake> = [(&MINUTE, minute), (&HOUR, hour), (&DAY, day), (&MONTH, month), (&WEEKDAY, weekday)]
            .into_iter()
            .filter_map(|(field, text)| field.check(text).err())
            .collect();
        if mistakes.is_empty() { Ok(Self::from_texts([minute, hour, day, month, weekday])) } else { Err(mistakes) }
    }

    fn of_nickname(nickname: &str) -> Option<Self> {
        let texts = match nickname {
            "HOURLY" => ["0", "*", "*", "*", "*"],
            "DAILY" | "MIDNIGHT" => ["0", "0", "*", "*", "*"],
            "WEEKLY" => ["0", "0", "*", "*", "0"],
            "MONTHLY" => ["0", "0", "1", "*", "*"],
            "YEARLY" | "ANNUALLY" => ["0", "0", "1", "1", "*"],
            _ => return None,
        };
        Some(Self::from_texts(texts))
    }

    fn from_texts(texts: [&str; 5]) -> Self {
        let [minute, hour, day, month, weekday] = texts.map(str::to_owned);
        Self { minute, hour, day, month, weekday }
    }

    /// Minutes or hours that follow from a step or a star make an expression an interval. Lists and ranges are fixed times.
    pub(super) fn is_interval(&self) -> bool {
        [&self.minute, &self.hour].iter().any(|field| field.contains(['*', '/']))
    }

    pub(super) fn text(&self) -> String {
        let Self { minute, hour, day, month, weekday } = self;
        format!("{minute} {hour} {day} {month} {weekday}")
    }
}

fn unknown_nickname(said: &str) -> Mistake {
    Mistake::new("cron_invalid", format!("`{}` is not a name of a schedule", said.to_ascii_lowercase()))
        .hint("use `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`, or five fields such as `0 9 * * 1-5`")
}

fn wrong_number(texts: &[&str]) -> Mistake {
    if texts.iter().any(|text| text.contains("TZ=")) {
        return Mistake::new("cron_invalid", "the expression names a time zone").hint("name the zone in `timezone`");
    }
    match texts {
        [_, minute, hour, day, month, weekday] | [_, minute, hour, day, month, weekday, _] => {
            Mistake::new("cron_seconds_refused", format!("the expression has {} fields, and the finest step is a minute", texts.len()))
                .hint(format!("without the field for seconds it is `{minute} {hour} {day} {month} {weekday}`"))
        }
        _ => Mistake::new("cron_invalid", format!("the expression has {} fields, and it needs five", texts.len()))
            .hint("write minute, hour, day of the month, month and weekday, such as `0 9 * * 1-5`"),
    }
}

/// What may stand in one field.
struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// Names for values, the first for `min` or, for weekdays, for 0.
    names: &'static [&'static str],
    special: Special,
}

/// What a field can say beyond numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    None,
    /// `L`, `LW` and `15W`.
    OfMonth,
    /// `5L` and `1#2`.
    OfWeekday,
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[], special: Special::None };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[], special: Special::None };
const DAY: Field = Field { name: "day of the month", min: 1, max: 31, names: &[], special: Special::OfMonth };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    special: Special::None,
};
/// Sunday is 0 and 7, so that `5-7` is a range.
const WEEKDAY: Field =
    Field { name: "weekday", min: 0, max: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"], special: Special::OfWeekday };

impl Field {
    fn check(&self, text: &str) -> Result<(), Mistake> {
        if text == "*" || self.stands_alone(text) {
            return Ok(());
        }
        text.split(',').try_for_each(|item| self.check_item(item))
    }

    /// `L`, `LW` and `15W` are not for lists: together they would not mean both.
    fn stands_alone(&self, text: &str) -> bool {
        let nearest = || text.strip_suffix('W').and_then(|day| self.value(day)).is_some();
        self.special == Special::OfMonth && (text == "L" || text == "LW" || nearest())
    }

    fn check_item(&self, item: &str) -> Result<(), Mistake> {
        let Self { name, min, max, .. } = self;
        if item.is_empty() {
            return Err(self.mistake("has a list with nothing between two commas").hint("take the comma away"));
        }
        if let Some((range, step)) = item.split_once('/') {
            return self.check_step(item, range, step);
        }
        if self.special == Special::OfWeekday && self.is_one_of_a_month(item) {
            return Ok(());
        }
        if let Some((first, last)) = item.split_once('-') {
            return self.range(item, first, last).map(|_| ());
        }
        match item {
            "*" => Err(self.mistake("has a list with `*` in it").hint("write `*` alone, or a list of values")),
            "?" => Err(self.mistake("is `?`").hint("write `*`")),
            _ if self.special == Special::OfMonth && item.ends_with(['L', 'W']) => {
                Err(self.mistake(&format!("has `{item}` in a list")).hint(format!("`{item}` can only stand alone")))
            }
            _ if self.value(item).is_none() => {
                let hint = match self.names {
                    [] => format!("write a number from {min} to {max}"),
                    [first, .., last] => format!("write a number from {min} to {max}, or a name from `{first}` to `{last}`"),
                    [only] => format!("write `{only}`"),
                };
                Err(Mistake::new("cron_invalid", format!("the {name} `{item}` is not between {min} and {max}")).hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// The last (`5L`) or n-th (`1#2`) weekday of a month.
    fn is_one_of_a_month(&self, item: &str) -> bool {
        let last = item.strip_suffix('L').and_then(|day| self.value(day)).is_some_and(|day| day < self.max);
        let nth = || item.split_once('#').is_some_and(|(day, nth)| self.value(day).is_some() && matches!(nth, "1" | "2" | "3" | "4" | "5"));
        last || nth()
    }

    fn check_step(&self, item: &str, range: &str, step: &str) -> Result<(), Mistake> {
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => self.range(item, first, last)?,
            None if range == "*" => (self.min, self.max),
            None => {
                return Err(self
                    .mistake(&format!("is `{item}`, a step without a range"))
                    .hint(format!("write `*/{step}`, or a range such as `{}-{}/{step}`", self.min, self.max)));
            }
        };
        let width = last - first;
        match number(step) {
            Some(step) if (1..=width).contains(&step) => Ok(()),
            Some(0) => Err(self.mistake(&format!("has the step 0 in `{item}`")).hint("write a step of 1 or more")),
            Some(_) => Err(self
                .mistake(&format!("has a step in `{item}` that leads out of the range at once"))
                .hint(format!("write `{first}`, or a step up to {width}"))),
            None => Err(self.mistake(&format!("has the step `{step}`, which is not a number")).hint("write a step such as `*/2`")),
        }
    }

    fn range(&self, item: &str, first: &str, last: &str) -> Result<(u16, u16), Mistake> {
        let invalid = |said: &str| {
            Err(self.mistake(&format!("has `{said}` in `{item}`")).hint(format!("write a range between {} and {}", self.min, self.max)))
        };
        let Some(from) = self.value(first) else { return invalid(first) };
        // As the end of a range, Sunday is the seventh day.
        let to = if last == "SUN" && self.special == Special::OfWeekday { Some(self.max) } else { self.value(last) };
        let Some(to) = to else { return invalid(last) };
        if from > to {
            return Err(self
                .mistake(&format!("has the range `{item}`, which runs backwards"))
                .hint(format!("write it as two ranges: `{first}-{},{}-{last}`", self.max, self.min)));
        }
        Ok((from, to))
    }

    fn value(&self, text: &str) -> Option<u16> {
        let named = || self.names.iter().position(|name| *name == text).and_then(|at| u16::try_from(at).ok()).map(|at| at + self.min);
        number(text).filter(|value| (self.min..=self.max).contains(value)).or_else(named)
    }

    fn mistake(&self, what: &str) -> Mistake {
        Mistake::new("cron_invalid", format!("the {} {what}", self.name))
    }
}

/// Up to three digits and nothing else: no sign, which `parse` would accept.
fn number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
