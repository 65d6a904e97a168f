//! Reads the config of a schedule, and reports all of its mistakes.

use super::Schedule;
use super::cron::Cron;
use super::zone::Zone;
use crate::Mistake;
use crate::limits::{
    CATCH_UP_MAX, CATCH_UP_MAX_DEFAULT, CATCH_UP_WINDOW_SECONDS_DEFAULT, CATCH_UP_WINDOW_SECONDS_MAX, CATCH_UP_WINDOW_SECONDS_MIN,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What to make up for after downtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    None,
    /// The newest tick only.
    Last,
    /// The newest `max` ticks of the last `window_seconds`.
    All {
        max: u64,
        window_seconds: u64,
    },
}

impl CatchUp {
    pub(super) fn to_value(self) -> Value {
        match self {
            Self::None => json!("none"),
            Self::Last => json!("last"),
            Self::All { max, window_seconds } => json!({ "all": { "max": max, "window_seconds": window_seconds } }),
        }
    }

    const ALL: Self = Self::All { max: CATCH_UP_MAX_DEFAULT, window_seconds: CATCH_UP_WINDOW_SECONDS_DEFAULT };
}

/// What becomes of a fixed time that the clock jumps over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DstGap {
    Shift,
    Skip,
}

impl DstGap {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shift => "shift",
            Self::Skip => "skip",
        }
    }
}

/// What becomes of a fixed time that the clock shows twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DstOverlap {
    First,
    Last,
    Both,
}

impl DstOverlap {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Both => "both",
        }
    }
}

/// The members of a config. `input_mapping` belongs to every trigger and is read elsewhere.
const MEMBERS: [&str; 6] = ["cron", "timezone", "catch_up", "dst_gap", "dst_overlap", "input_mapping"];

pub(super) fn read(config: &Value) -> Result<Schedule, Vec<Mistake>> {
    let Some(config) = config.as_object() else {
        return Err(vec![Mistake::new("config_invalid", "the config of a schedule is not an object").hint(EXAMPLE)]);
    };
    let mut mistakes: Vec<Mistake> =
        config.keys().filter(|name| !MEMBERS.contains(&name.as_str())).map(|name| unknown_member(name)).collect();
    let mut keep = |pointer: &str, wrong: Vec<Mistake>| mistakes.extend(wrong.into_iter().map(|mistake| mistake.under(pointer)));

    let cron = text(config, "cron", "cron_invalid").and_then(Cron::parse).map_err(|wrong| keep("/cron", wrong)).ok();
    let zone = text(config, "timezone", "timezone_unknown").and_then(|name| Zone::find(name).map_err(|wrong| vec![wrong]));
    let zone = zone.map_err(|wrong| keep("/timezone", wrong)).ok();
    let catch_up = catch_up(config.get("catch_up")).map_err(|wrong| keep("/catch_up", wrong)).ok();
    let dst_gap = one_of(config.get("dst_gap"), &[DstGap::Shift, DstGap::Skip], DstGap::as_str);
    let dst_gap = dst_gap.map_err(|wrong| keep("/dst_gap", vec![wrong])).ok();
    let dst_overlap = one_of(config.get("dst_overlap"), &[DstOverlap::First, DstOverlap::Last, DstOverlap::Both], DstOverlap::as_str);
    let dst_overlap = dst_overlap.map_err(|wrong| keep("/dst_overlap", vec![wrong])).ok();

    match (cron, zone, catch_up, dst_gap, dst_overlap) {
        (Some(cron), Some(zone), Some(catch_up), Some(dst_gap), Some(dst_overlap)) if mistakes.is_empty() => {
            Ok(Schedule { cron, zone: Arc::new(zone), catch_up, dst_gap, dst_overlap })
        }
        _ => Err(mistakes),
    }
}

const EXAMPLE: &str = "write `{\"cron\": \"0 9 * * 1-5\", \"timezone\": \"Europe/Paris\"}`";

fn unknown_member(name: &str) -> Mistake {
    let near = countersign_core::nearest::nearest(name, MEMBERS);
    let hint = near.first().map_or_else(|| format!("a schedule has {}", quoted(&MEMBERS)), |near| format!("did you mean `{near}`?"));
    // A name is a token of a pointer, in which two characters are escaped.
    let token = name.replace('~', "~0").replace('/', "~1");
    Mistake::new("unknown_member", format!("a schedule has no `{name}`")).hint(hint).under(&format!("/{token}"))
}

fn text<'c>(config: &'c Map<String, Value>, name: &str, code: &'static str) -> Result<&'c str, Vec<Mistake>> {
    let wrong = |what: String| Err(vec![Mistake::new(code, what).hint(EXAMPLE)]);
    match config.get(name) {
        None => wrong(format!("`{name}` is missing")),
        Some(Value::String(text)) => Ok(text),
        Some(_) => wrong(format!("`{name}` is not a text")),
    }
}

/// The first choice is the default.
fn one_of<T: Copy>(said: Option<&Value>, choices: &[T], name: fn(T) -> &'static str) -> Result<T, Mistake> {
    let names: Vec<&str> = choices.iter().map(|choice| name(*choice)).collect();
    let chosen = match said {
        None => choices.first(),
        Some(said) => choices.iter().find(|choice| said.as_str() == Some(name(**choice))),
    };
    let said = said.unwrap_or(&Value::Null);
    chosen
        .copied()
        .ok_or_else(|| Mistake::new("enum", format!("`{said}` is not one of its values")).hint(format!("write {}", either(&names))))
}

fn catch_up(said: Option<&Value>) -> Result<CatchUp, Vec<Mistake>> {
    match said {
        None => Ok(CatchUp::Last),
        Some(Value::String(word)) => match word.as_str() {
            "none" => Ok(CatchUp::None),
            "last" => Ok(CatchUp::Last),
            "all" => Ok(CatchUp::ALL),
            _ => Err(vec![not_a_catch_up(&json!(word))]),
        },
        Some(Value::Object(members)) if members.len() == 1 => match members.get("all") {
            Some(Value::Object(bounds)) => {
                catch_up_all(bounds).map_err(|wrong| wrong.into_iter().map(|mistake| mistake.under("/all")).collect())
            }
            Some(_) | None => Err(vec![not_a_catch_up(&json!(members))]),
        },
        Some(other) => Err(vec![not_a_catch_up(other)]),
    }
}

fn catch_up_all(bounds: &Map<String, Value>) -> Result<CatchUp, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut bounded = |name: &str, default: u64, range: std::ops::RangeInclusive<u64>| {
        let Some(said) = bounds.get(name) else { return default };
        said.as_u64().filter(|said| range.contains(said)).unwrap_or_else(|| {
            let (from, to) = range.into_inner();
            let mistake = Mistake::new("catch_up_invalid", format!("`{said}` is not a whole number from {from} to {to}"));
            mistakes.push(mistake.hint(format!("without it, it is {default}")).under(&format!("/{name}")));
            default
        })
    };
    let max = bounded("max", CATCH_UP_MAX_DEFAULT, 1..=CATCH_UP_MAX);
    let window = CATCH_UP_WINDOW_SECONDS_MIN..=CATCH_UP_WINDOW_SECONDS_MAX;
    let window_seconds = bounded("window_seconds", CATCH_UP_WINDOW_SECONDS_DEFAULT, window);
    if bounds.keys().any(|name| !["max", "window_seconds"].contains(&name.as_str())) {
        mistakes
            .push(Mistake::new("catch_up_invalid", "`all` has a member that it does not know").hint("it knows `max` and `window_seconds`"));
    }
    if mistakes.is_empty() { Ok(CatchUp::All { max, window_seconds }) } else { Err(mistakes) }
}

fn not_a_catch_up(said: &Value) -> Mistake {
    Mistake::new("catch_up_invalid", format!("`{said}` is not a way to catch up"))
        .hint("write \"none\", \"last\", \"all\" or {\"all\": {\"max\": 100, \"window_seconds\": 86400}}")
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn either(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or `{last}`", quoted(first)),
        names => quoted(names),
    }
}
