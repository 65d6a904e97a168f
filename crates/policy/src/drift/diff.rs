//! What changed between two definitions, part by part, for a person who has to accept it.

use super::weight::{Place, Weight};
use crate::scan::is_unseen;
use crate::scan::pointer_step;
use serde_json::Value;
use std::fmt::{self, Write as _};

/// One difference. Those of a diff, made one after the other, turn the one definition into the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// A JSON pointer into the definition; empty for the whole of it.
    pub pointer: String,
    pub edit: Edit,
    pub weight: Weight,
}

/// What was done to the place.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    Added { after: Value },
    Removed { before: Value },
    Changed { before: Value, after: Value },
}

impl Change {
    /// What stood there before and what stands there now, each as one short line in which everything is visible.
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

/// Such as `description changed` or `params_schema/properties/to added`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.pointer.strip_prefix('/').map_or_else(|| "the definition".to_owned(), visible);
        let done = match self.edit {
            Edit::Added { .. } => "added",
            Edit::Removed { .. } => "removed",
            Edit::Changed { .. } => "changed",
        };
        write!(f, "{place} {done}")
    }
}

/// Compares two archived textual bodies. Nothing is listed only if they are equal.
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
        // A list of plain values, such as `required`, is one thing to a reader; a list of schemas is several.
        (Value::Array(old), Value::Array(new)) if old.iter().chain(new).any(|item| item.is_object() || item.is_array()) => {
            for (index, (before, after)) in old.iter().zip(new).enumerate() {
                at(pointer, &index.to_string(), |pointer| compare(before, after, place.item(), pointer, changes));
            }
            // Each changes the length of the list, so what follows one becomes its end.
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

/// Goes one step down, and comes back.
fn at(pointer: &mut String, step: &str, visit: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&pointer_step(step));
    visit(pointer);
    pointer.truncate(length);
}

/// Characters of a value that are shown.
const SHORT_CHARS_MAX: usize = 120;
/// Characters before the first difference that are shown with it.
const CONTEXT_CHARS: usize = 24;

fn line(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => visible(&value.to_string()),
    }
}

/// From shortly before the first difference, and no longer than fits.
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

/// With everything that would not show, or would break the line, spelt out.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unseen(character) || character.is_control() {
            // Writing into a text cannot fail.
            let _ = write!(visible, "\\u{{{:x}}}", u32::from(character));
        } else {
            visible.push(character);
        }
    }
    visible
}
