//! The differences between two definitions, part by part, for a person who has to accept them.

use super::weight::{Place, Weight};
use crate::scan::pointer_step;
use countersign_core::clean;
use serde_json::Value;
use std::fmt;

/// One difference. The differences of a diff, applied in order, turn the first definition into the second.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// A JSON pointer into the definition; empty for the whole definition.
    pub pointer: String,
    pub edit: Edit,
    pub weight: Weight,
}

/// How the value at the pointer changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    Added { after: Value },
    Removed { before: Value },
    Changed { before: Value, after: Value },
}

impl Change {
    /// The values before and after the change, each as one short line in which every character is visible.
    pub fn texts(&self) -> (Option<String>, Option<String>) {
        match &self.edit {
            Edit::Added { after } => (None, Some(short(&line(after), 0))),
            Edit::Removed { before } => (Some(short(&line(before), 0)), None),
            Edit::Changed { before, after } => {
                let (before, after) = (line(before), line(after));
                let common = before.chars().zip(after.chars()).take_while(|(left, right)| left == right).count();
                (Some(short(&before, common)), Some(short(&after, common)))
            }
        }
    }
}

/// Prints, for example, `description changed` or `params_schema/properties/to added`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.pointer.strip_prefix('/').map_or_else(|| "the definition".to_owned(), clean::line);
        let done = match self.edit {
            Edit::Added { .. } => "added",
            Edit::Removed { .. } => "removed",
            Edit::Changed { .. } => "changed",
        };
        write!(f, "{place} {done}")
    }
}

/// Compares two archived textual bodies. The list is empty only if they are equal.
pub fn semantic_diff(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(before, after, Place::Definition, &mut String::new(), &mut changes);
    changes
}

fn compare(before: &Value, after: &Value, place: Place, pointer: &mut String, changes: &mut Vec<Change>) {
    if before == after {
        return;
    }
    let weight = place.weight();
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, before) in old {
                let place = place.member(key, [Some(before), new.get(key)]);
                at(pointer, key, |pointer| match new.get(key) {
                    Some(after) => compare(before, after, place, pointer, changes),
                    None => changes.push(Change {
                        pointer: pointer.clone(),
                        edit: Edit::Removed { before: before.clone() },
                        weight: place.weight(),
                    }),
                });
            }
            for (key, after) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                let weight = place.member(key, [None, Some(after)]).weight();
                at(pointer, key, |pointer| {
                    changes.push(Change { pointer: pointer.clone(), edit: Edit::Added { after: after.clone() }, weight });
                });
            }
        }
        // A list of plain values, such as `required`, is compared as one value; a list of schemas is compared item by item.
        (Value::Array(old), Value::Array(new)) if old.iter().chain(new).any(|item| item.is_object() || item.is_array()) => {
            for (index, (before, after)) in old.iter().zip(new).enumerate() {
                at(pointer, &index.to_string(), |pointer| compare(before, after, place.item(), pointer, changes));
            }
            // Removals start at the end of the list and additions go to its end, so that each index is valid when its change is applied.
            let weight = place.item().weight();
            for (index, before) in old.iter().enumerate().skip(new.len()).rev() {
                let edit = Edit::Removed { before: before.clone() };
                at(pointer, &index.to_string(), |pointer| changes.push(Change { pointer: pointer.clone(), edit, weight }));
            }
            for (index, after) in new.iter().enumerate().skip(old.len()) {
                let edit = Edit::Added { after: after.clone() };
                at(pointer, &index.to_string(), |pointer| changes.push(Change { pointer: pointer.clone(), edit, weight }));
            }
        }
        _ => {
            changes.push(Change { pointer: pointer.clone(), edit: Edit::Changed { before: before.clone(), after: after.clone() }, weight })
        }
    }
}

/// Calls `visit` with the pointer extended by one step, and restores the pointer afterwards.
fn at(pointer: &mut String, step: &str, visit: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&pointer_step(step));
    visit(pointer);
    pointer.truncate(length);
}

/// How many characters of a value are shown.
const SHORT_CHARS_MAX: usize = 120;
/// How many characters before the first difference are shown with it.
const CONTEXT_CHARS: usize = 24;

fn line(value: &Value) -> String {
    match value {
        Value::String(text) => clean::line(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => clean::line(&value.to_string()),
    }
}

/// Cuts the line to what fits, starting shortly before the first difference.
fn short(line: &str, common: usize) -> String {
    let length = line.chars().count();
    if length <= SHORT_CHARS_MAX {
        return line.to_owned();
    }
    let skipped = common.saturating_sub(CONTEXT_CHARS);
    let shown: String = line.chars().skip(skipped).take(SHORT_CHARS_MAX).collect();
    let start = if skipped > 0 { "…" } else { "" };
    let end = if skipped + SHORT_CHARS_MAX < length { "…" } else { "" };
    format!("{start}{shown}{end}")
}
