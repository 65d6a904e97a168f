//! An expression in words, for people. Only what can be said in one breath is said; anything else stays an expression.

use super::cron::Cron;

/// A list of more than this is not read but skimmed.
const LIST_MAX: usize = 6;

pub(super) fn describe(cron: &Cron) -> String {
    match (times(cron), days(cron), months(cron)) {
        (Some(times), Some(days), Some(months)) => {
            [times, days, months].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
        }
        _ => format!("`{}`", cron.expression()),
    }
}

fn times(cron: &Cron) -> Option<String> {
    let fields = cron.fields();
    let minute: Option<u32> = fields.minute.parse().ok();
    let step = |field: &str, of: u32| -> Option<u32> { field.strip_prefix("*/")?.parse().ok().filter(|step| of.is_multiple_of(*step)) };
    match (fields.minute.as_str(), fields.hour.as_str()) {
        ("*", "*") => Some("every minute".to_owned()),
        (every, "*") if step(every, 60).is_some() => Some(every_nth(step(every, 60)?, "minute")),
        (_, "*") => Some(if minute? == 0 { "every hour".to_owned() } else { format!("every hour at :{:02}", minute?) }),
        (_, every) if minute.is_some() && step(every, 24).is_some() => {
            let hours = every_nth(step(every, 24)?, "hour");
            Some(if minute? == 0 { hours } else { format!("{hours} at :{:02}", minute?) })
        }
        _ => {
            let clock = |time: &i64| format!("{:02}:{:02}", time / 3600, time / 60 % 60);
            let times = listed(cron.times().iter().map(clock).collect())?;
            let daily = fields.day == "*" && fields.weekday == "*";
            Some(format!("at {times}{}", if daily { " every day" } else { "" }))
        }
    }
}

fn every_nth(step: u32, unit: &str) -> String {
    if step == 1 { format!("every {unit}") } else { format!("every {step} {unit}s") }
}

fn days(cron: &Cron) -> Option<String> {
    let fields = cron.fields();
    let of_month = match fields.day.as_str() {
        "*" => None,
        "L" => Some("on the last day of the month".to_owned()),
        "LW" => Some("on the last weekday of the month".to_owned()),
        day if day.ends_with('W') => return None,
        _ => Some(format!("on the {} of the month", listed(cron.days_of_month().into_iter().map(ordinal).collect())?)),
    };
    let of_week = match fields.weekday.as_str() {
        "*" => None,
        day if day.contains(['L', '#']) => return None,
        _ => Some(match cron.weekdays()[..] {
            [1, 2, 3, 4, 5] => "on weekdays".to_owned(),
            [0, 6] => "on Saturdays and Sundays".to_owned(),
            ref days => format!(
                "on {}",
                listed(days.iter().filter_map(|day| WEEKDAYS.get(usize::from(*day))).map(|day| format!("{day}s")).collect())?
            ),
        }),
    };
    // Either of them is enough, if both are said.
    Some([of_month, of_week].into_iter().flatten().collect::<Vec<_>>().join(" and "))
}

fn months(cron: &Cron) -> Option<String> {
    if cron.fields().month == "*" {
        return Some(String::new());
    }
    let names = cron.months().into_iter().filter_map(|month| MONTHS.get(usize::from(month).checked_sub(1)?)).map(|name| (*name).to_owned());
    listed(names.collect()).map(|names| format!("in {names}"))
}

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

fn ordinal(day: u16) -> String {
    let ending = match (day % 10, day / 10) {
        (_, 1) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{day}{ending}")
}

fn listed(words: Vec<String>) -> Option<String> {
    match &words[..] {
        [] => None,
        many if many.len() > LIST_MAX => None,
        [only] => Some(only.clone()),
        [first @ .., last] => Some(format!("{} and {last}", first.join(", "))),
    }
}
