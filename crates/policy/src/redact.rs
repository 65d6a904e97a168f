//! Removes secrets from a call before it is stored, logged or previewed; its structure and its harmless texts stay.
//!
//! A secret is recognised by its key (`redact/key.rs`) or by its own form (`redact/text.rs`). This is best effort, not a control: a secret
//! with neither a telling key nor a certain form passes. `redact` never changes what a source receives; for spaces that ask for that, there
//! is `redact_params` in `redact/params.rs`.

mod key;
mod text;

pub(crate) use text::NAMED;
mod params;
mod unreadable;
mod tokens;
mod fold;
mod email;
mod phone;
mod encoded;
mod faces;

pub use params::{Outgoing, Redaction, redact_params};
pub use phone::{Region, UnknownRegion, warm};
pub use tokens::{Kind, Replaced};
pub use unreadable::{Because, Unreadable};

use key::Holds;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The text that replaces a secret.
pub const MARK: &str = "[redacted]";

/// A value without its secrets, and how many of each kind were removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Redacted {
    pub value: Value,
    pub counts: BTreeMap<&'static str, u32>,
}

/// Removes secrets from a value. Types, array lengths, the number of members and all values that are not texts stay as they are.
pub fn redact(value: &Value) -> Redacted {
    let mut counts = Counts::default();
    let value = walk(value, Holds::Anything, &mut counts);
    Redacted { value, counts: counts.0 }
}

/// Removes secrets from a text, such as an error message.
pub fn redact_text(text: &str) -> String {
    text::redact(text, &mut Counts::default()).into_owned()
}

/// How a secret is replaced, and what is recorded about it.
trait Marks {
    /// Whether a text already is a replacement.
    fn is_mark(&self, text: &str) -> bool;

    /// The replacement for `secret`, which a rule of this kind found.
    fn mark(&mut self, kind: &'static str, secret: &str) -> String;
}

#[derive(Default)]
struct Counts(BTreeMap<&'static str, u32>);

impl Counts {
    fn add(&mut self, kind: &'static str) {
        let count = self.0.entry(kind).or_default();
        *count = count.saturating_add(1);
    }
}

impl Marks for Counts {
    fn is_mark(&self, text: &str) -> bool {
        text == MARK
    }

    fn mark(&mut self, kind: &'static str, _: &str) -> String {
        self.add(kind);
        MARK.to_owned()
    }
}

/// `holds` is what the nearest key says about the value.
fn walk(value: &Value, holds: Holds, counts: &mut Counts) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(match holds {
            Holds::Anything => text::redact(text, counts).into_owned(),
            Holds::Secret | Holds::Secrets => mark(text, counts).to_owned(),
        }),
        Value::Array(items) => items.iter().map(|item| walk(item, holds, counts)).collect(),
        Value::Object(members) => Value::Object(walk_members(members, holds, counts)),
    }
}

fn walk_members(members: &Map<String, Value>, holds: Holds, counts: &mut Counts) -> Map<String, Value> {
    let named = named(members);
    let mut walked = Map::with_capacity(members.len());
    let mut marked = BTreeMap::new();
    for (key, value) in members {
        let redacted = text::redact(key, counts);
        let own = match &redacted {
            Cow::Borrowed(_) => key::holds(key),
            Cow::Owned(redacted) => key::holds(key).max(key::holds(redacted)),
        };
        let holds = match (holds, own) {
            (Holds::Secrets, _) => Holds::Secrets,
            (Holds::Anything | Holds::Secret, Holds::Anything) if key == "value" => named,
            (Holds::Anything | Holds::Secret, own) => own,
        };
        let value = walk(value, holds, counts);
        let key = match redacted {
            Cow::Borrowed(key) => key.to_owned(),
            Cow::Owned(key) => unused(&key, &mut marked, |key| members.contains_key(key) || walked.contains_key(key)),
        };
        walked.insert(key, value);
    }
    walked
}

/// What the `value` member of a name and value pair holds, as in `{"name": "x-api-key", "value": "…"}`.
fn named(members: &Map<String, Value>) -> Holds {
    let name = ["name", "key"].into_iter().find_map(|member| members.get(member)?.as_str());
    name.map_or(Holds::Anything, |name| key::holds(name).max(key::holds(&redact_text(name))))
}

/// A redacted key must not replace another member, so it gets a number. The number continues from the last key that was redacted to the
/// same text.
fn unused(key: &str, marked: &mut BTreeMap<String, u64>, is_used: impl Fn(&str) -> bool) -> String {
    let times = marked.entry(key.to_owned()).or_insert(0);
    loop {
        *times += 1;
        let candidate = if *times == 1 { key.to_owned() } else { format!("{key} {times}") };
        if !is_used(&candidate) {
            return candidate;
        }
    }
}

fn mark<'t>(text: &'t str, counts: &mut Counts) -> &'t str {
    if text.is_empty() || text == MARK {
        return text;
    }
    counts.add(text::NAMED);
    MARK
}
