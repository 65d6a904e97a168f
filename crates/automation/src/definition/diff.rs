//! What differs between two definitions, by JSON pointer. Steps and triggers are compared with those of the same id, wherever they stand.

use countersign_core::json::escape;
use serde::Serialize;
use serde_json::{Map, Value};

/// One place that differs. The pointer is of the new value, or of the old one where nothing is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub pointer: String,
    /// Absent: it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Absent: it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Members that name the items of a list.
const IDS: [&str; 2] = ["step_id", "trigger_id"];

/// Compares two normalised definitions.
pub fn diff(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(old, new, "", &mut changes);
    changes
}

fn compare(old: &Value, new: &Value, place: &str, changes: &mut Vec<Change>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(old), Value::Object(new)) => compare_members(old, new, place, changes),
        (Value::Array(before), Value::Array(after)) => match (ids(before), ids(after)) {
            (Some(old_ids), Some(new_ids)) => compare_named((before, &old_ids), (after, &new_ids), place, changes),
            _ => compare_items(before, after, place, changes),
        },
        _ => changes.push(change(place.to_owned(), Some(old), Some(new))),
    }
}

fn compare_members(old: &Map<String, Value>, new: &Map<String, Value>, place: &str, changes: &mut Vec<Change>) {
    let below = |name: &str| format!("{place}/{}", escape(name));
    for (name, before) in old {
        match new.get(name) {
            Some(after) => compare(before, after, &below(name), changes),
            None => changes.push(change(below(name), Some(before), None)),
        }
    }
    let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
    changes.extend(added.map(|(name, after)| change(below(name), None, Some(after))));
}

fn compare_items(old: &[Value], new: &[Value], place: &str, changes: &mut Vec<Change>) {
    for index in 0..old.len().max(new.len()) {
        let below = format!("{place}/{index}");
        match (old.get(index), new.get(index)) {
            (Some(before), Some(after)) => compare(before, after, &below, changes),
            (before, after) => changes.push(change(below, before, after)),
        }
    }
}

type Named<'a> = (&'a [Value], &'a [&'a str]);

fn compare_named((old, old_ids): Named<'_>, (new, new_ids): Named<'_>, place: &str, changes: &mut Vec<Change>) {
    let position = |ids: &[&str], id: &str| ids.iter().position(|known| *known == id);
    for (index, before) in old.iter().enumerate().filter(|(index, _)| position(new_ids, old_ids[*index]).is_none()) {
        changes.push(change(format!("{place}/{index}"), Some(before), None));
    }
    for (index, after) in new.iter().enumerate() {
        let below = format!("{place}/{index}");
        match position(old_ids, new_ids[index]) {
            Some(was) => compare(&old[was], after, &below, changes),
            None => changes.push(change(below, None, Some(after))),
        }
    }
    // What is in both stands in another order: the order itself changed.
    let both = |ids: &[&str], others: &[&str]| ids.iter().filter(|id| others.contains(id)).map(|id| Value::from(*id)).collect::<Vec<_>>();
    let (before, after) = (both(old_ids, new_ids), both(new_ids, old_ids));
    if before != after {
        changes.push(change(place.to_owned(), Some(&Value::from(before)), Some(&Value::from(after))));
    }
}

/// The ids of a list in which every item has one; `None` for any other.
fn ids(items: &[Value]) -> Option<Vec<&str>> {
    let key = IDS.into_iter().find(|key| items.iter().any(|item| item.get(key).is_some()));
    if items.is_empty() {
        return Some(Vec::new());
    }
    items.iter().map(|item| item.get(key?)?.as_str()).collect()
}

fn change(pointer: String, before: Option<&Value>, after: Option<&Value>) -> Change {
    Change { pointer, before: before.cloned(), after: after.cloned() }
}
