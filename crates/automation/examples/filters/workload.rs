//! The filters and events that are measured. Each filter has two fields: one that many share, and one of its kind.

use crate::generated::Dice;
use serde_json::{Map, Value, json};

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Equals,
    Prefix,
    Range,
    /// 75 % equals, the rest half prefixes and half ranges.
    Mixed,
    Contains,
    Regex,
    /// The field that many share is then one that few share: otherwise a filter would match almost every event, and be measured by its answers.
    AnythingBut,
    /// 90 % as `Mixed`, the rest contains, regexes and anything-but.
    All,
}

#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// All filters are for one type of events.
    OneType,
    /// A hundred filters for each type.
    Spread,
}

impl Layout {
    pub(crate) fn types(self, count: u64) -> u64 {
        match self {
            Self::OneType => 1,
            Self::Spread => (count / 100).max(1),
        }
    }

    pub(crate) fn event_type(self, number: u64) -> String {
        format!("shop.order_{number}")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneType => "one type",
            Self::Spread => "100 per type",
        }
    }
}

impl Kind {
    pub(crate) const ALL: [Self; 8] =
        [Self::Equals, Self::Prefix, Self::Range, Self::Mixed, Self::Contains, Self::Regex, Self::AnythingBut, Self::All];

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("there is no kind `{name}`"))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equals => "equals",
            Self::Prefix => "prefix",
            Self::Range => "range",
            Self::Mixed => "mixed",
            Self::Contains => "contains",
            Self::Regex => "regex",
            Self::AnythingBut => "anything-but",
            Self::All => "all",
        }
    }

    pub(crate) fn filter(self, dice: &mut Dice, count: u64) -> Value {
        let state = dice.one_of(&STATES);
        match self {
            Self::Equals => json!({ "data.state": state, "data.item": item(dice.below(count)) }),
            Self::Prefix => json!({ "data.state": state, "data.path": { "starts_with": folder(dice.below(count)) } }),
            Self::Range => {
                let least = dice.below(count * 100);
                json!({ "data.state": state, "data.amount": { "gte": least, "lt": least + 1_000 } })
            }
            Self::Contains => json!({ "data.state": state, "data.note": { "contains": word(dice.below(count)) } }),
            Self::Regex => json!({ "data.state": state, "data.ref": { "regex": format!("^rel-{}-[0-9]+$", dice.below(count)) } }),
            Self::AnythingBut => json!({ "data.account": account(dice.below(count)), "data.state": { "not_equals": state } }),
            Self::Mixed => match dice.below(8) {
                0 => Self::Prefix.filter(dice, count),
                1 => Self::Range.filter(dice, count),
                _ => Self::Equals.filter(dice, count),
            },
            Self::All => match dice.below(30) {
                0 => Self::Contains.filter(dice, count),
                1 => Self::Regex.filter(dice, count),
                2 => Self::AnythingBut.filter(dice, count),
                _ => Self::Mixed.filter(dice, count),
            },
        }
    }
}

/// The same filter as a pattern of quamina: objects instead of paths, and at each end a list of what may stand there. `None` for kinds that are
/// not compared.
pub(crate) fn as_pattern(filter: &Value) -> Option<Value> {
    let mut pattern = Map::new();
    for (path, test) in filter.as_object()? {
        let (first, second) = path.split_once('.')?;
        let under = pattern.entry(first).or_insert_with(|| json!({}));
        under.as_object_mut()?.insert(second.to_owned(), json!([tested(test)?]));
    }
    Some(Value::Object(pattern))
}

fn tested(test: &Value) -> Option<Value> {
    let Some(operators) = test.as_object() else { return Some(test.clone()) };
    if let Some(prefix) = operators.get("starts_with") {
        return Some(json!({ "prefix": prefix }));
    }
    Some(json!({ "numeric": [">=", operators.get("gte")?, "<", operators.get("lt")?] }))
}

const STATES: [&str; 4] = ["open", "paid", "sent", "closed"];

/// About 290 bytes.
pub(crate) fn event(dice: &mut Dice, count: u64) -> Value {
    json!({
        "specversion": "1.0",
        "id": format!("evt_{:016x}", dice.below(u64::MAX)),
        "source": "/shop/eu",
        "data": {
            "state": dice.one_of(&STATES),
            "item": item(dice.below(count)),
            "account": account(dice.below(count)),
            "path": format!("{}file.txt", folder(dice.below(count))),
            "amount": dice.below(count * 100),
            "ref": format!("rel-{}-{}", dice.below(count), dice.below(100)),
            "note": format!("{} and {} then {}", word(dice.below(count)), word(dice.below(count)), word(dice.below(count))),
        },
    })
}

fn item(number: u64) -> String {
    format!("item-{number:07}")
}

fn account(number: u64) -> String {
    format!("acct-{number:07}")
}

fn folder(number: u64) -> String {
    format!("/eu/{}/{:05}/", number % 10, number / 10)
}

fn word(number: u64) -> String {
    format!("w{number:06}")
}
