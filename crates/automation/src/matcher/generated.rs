//! Filters and events by chance, from few names and values, so that they meet often. The same seed gives the same ones.

use serde_json::{Map, Value, json};

/// A source of numbers that need not be hard to guess (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(crate) fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u64) as usize]
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d.e"];
const TEXTS: [&str; 12] = ["", "a", "ab", "abc", "b", "bc", "foo-1", "foo-12", "é", "éa", "1", "true"];
const PARTS: [&str; 8] = ["a", "b", "ab", "bc", "foo-", "é", "1", "abc"];
const REGEXES: [&str; 9] = ["^a", "ab+", "foo|bc", "[0-9]+", "(?i)AB", "^$", "^foo-[0-9]$", "é.", "^(ab|é)c?$"];
const NUMBERS: [&str; 17] = [
    "0",
    "-0.0",
    "1",
    "1.0",
    "-1",
    "2",
    "1.5",
    "0.1",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "1e20",
    "-1e300",
];
const EVENT_TYPES: [&str; 4] = ["t.a", "t.b", "t.a.c", "u"];
const SUBSCRIBED: [&str; 8] = ["t.a", "t.a", "t.b", "t.a.c", "t.*", "t.a.*", "u", "*"];
const SPACES: [Option<&str>; 3] = [None, Some("one"), Some("two")];

pub(crate) fn space(dice: &mut Dice) -> Option<&'static str> {
    dice.one_of(&SPACES)
}

pub(crate) fn event_type(dice: &mut Dice) -> &'static str {
    dice.one_of(&EVENT_TYPES)
}

pub(crate) fn subscribed(dice: &mut Dice) -> &'static str {
    dice.one_of(&SUBSCRIBED)
}

/// Whether a filter for these types and this space concerns an event, said once more and plainly.
pub(crate) fn concerns(space: Option<&str>, subscribed: &str, event_space: Option<&str>, event_type: &str) -> bool {
    let of_type = match subscribed {
        "*" => true,
        below if below.ends_with(".*") => event_type.starts_with(&below[..below.len() - 1]),
        exact => exact == event_type,
    };
    of_type && (space.is_none() || event_space.is_none() || space == event_space)
}

pub(crate) fn event(dice: &mut Dice) -> Value {
    let mut event = value(dice, 0, 100);
    if dice.below(2) == 0 {
        event["a"] = elements(dice, 0);
    }
    event
}

/// A list of objects as alike as possible, some of them in lists of their own.
fn elements(dice: &mut Dice, depth: u64) -> Value {
    let element = |dice: &mut Dice| match dice.below(8) {
        0 if depth < 2 => elements(dice, depth + 1),
        1 if depth < 2 => json!({ "b": elements(dice, depth + 1), "c": dice.below(2) }),
        2 => json!({ "b": dice.below(2) }),
        3 => json!(dice.below(2)),
        _ => json!({ "b": dice.below(2), "c": dice.below(2) }),
    };
    (0..dice.below(4)).map(|_| element(dice)).collect()
}

/// Object at first; deeper down, ever more scalars.
fn value(dice: &mut Dice, depth: u64, object_chance: u64) -> Value {
    let roll = dice.below(100);
    if roll < object_chance {
        let mut members = Map::new();
        for name in NAMES {
            if dice.below(4) > 0 {
                members.insert(name.to_owned(), value(dice, depth + 1, 45_u64.saturating_sub(13 * depth)));
            }
        }
        Value::Object(members)
    } else if roll < object_chance + 25 && depth < 5 {
        (0..dice.below(4)).map(|_| value(dice, depth + 1, 45_u64.saturating_sub(13 * depth))).collect()
    } else {
        scalar(dice)
    }
}

fn scalar(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2..=4 => number(dice),
        _ => json!(dice.one_of(&TEXTS)),
    }
}

fn number(dice: &mut Dice) -> Value {
    serde_json::from_str(dice.one_of(&NUMBERS)).unwrap_or_default()
}

/// It may cost too much.
pub(crate) fn filter(dice: &mut Dice) -> Value {
    filter_at(dice, 1)
}

fn filter_at(dice: &mut Dice, depth: u64) -> Value {
    let mut members = if dice.below(4) == 0 { of_one_element(dice) } else { Map::new() };
    let more = if members.is_empty() { 1 } else { 0 };
    for _ in 0..more + dice.below(2 + more) {
        let roll = dice.below(10);
        if roll < 7 || depth >= 4 {
            members.insert(path(dice), test(dice));
        } else if roll == 7 {
            members.insert("$not".to_owned(), filter_at(dice, depth + 1));
        } else {
            let name = if roll == 8 { "$and" } else { "$or" };
            members.insert(name.to_owned(), (0..1 + dice.below(3)).map(|_| filter_at(dice, depth + 1)).collect());
        }
    }
    Value::Object(members)
}

/// Members about elements of one list.
fn of_one_element(dice: &mut Dice) -> Map<String, Value> {
    let under = dice.one_of(&["a", "a.b"]);
    let mut member = |name: &str| {
        let test = match dice.below(4) {
            0 => json!({ "not_equals": dice.below(2) }),
            1 => json!({ "exists": dice.below(2) == 0 }),
            _ => json!(dice.below(2)),
        };
        (format!("{under}.{name}"), test)
    };
    [member("b"), member("c")].into_iter().collect()
}

fn path(dice: &mut Dice) -> String {
    let names = (0..1 + dice.below(3)).map(|_| dice.one_of(&NAMES).replace('.', r"\."));
    names.collect::<Vec<_>>().join(".")
}

fn test(dice: &mut Dice) -> Value {
    if dice.below(4) == 0 {
        return scalar(dice);
    }
    let mut operators = Map::new();
    for _ in 0..1 + dice.below(2) {
        let (name, operand) = match dice.below(13) {
            0 => ("equals", scalar(dice)),
            1 => ("not_equals", scalar(dice)),
            2 => ("in", (0..1 + dice.below(3)).map(|_| scalar(dice)).collect()),
            3 => ("not_in", (0..1 + dice.below(3)).map(|_| scalar(dice)).collect()),
            4 => ("starts_with", json!(dice.one_of(&PARTS))),
            5 => ("ends_with", json!(dice.one_of(&PARTS))),
            6 => ("contains", json!(dice.one_of(&PARTS))),
            7 => ("regex", json!(dice.one_of(&REGEXES))),
            8 => ("gt", number(dice)),
            9 => ("gte", number(dice)),
            10 => ("lt", number(dice)),
            11 => ("lte", number(dice)),
            _ => ("exists", json!(dice.below(2) == 0)),
        };
        operators.insert(name.to_owned(), operand);
    }
    Value::Object(operators)
}
