//! Visits every text of a value with its place: the keys of objects, and all text values.

use super::unseen::is_unseen;
use crate::redact_text;
use serde_json::Value;

/// One step of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

/// The path from the root to the current value. A pointer is built from it only when something was found.
#[derive(Debug, Default)]
pub(super) struct Path<'v>(Vec<Step<'v>>);

/// Whether a text is the key of a member or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Key,
    Content,
}

impl<'v> Path<'v> {
    /// Calls `visit` one step down, and comes back.
    pub(super) fn within<T>(&mut self, step: Step<'v>, visit: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(step);
        let visited = visit(self);
        self.0.pop();
        visited
    }

    /// The nearest key, ignoring array indices in between.
    pub(super) fn key(&self) -> Option<&'v str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(*key),
            Step::Index(_) => None,
        })
    }

    /// The JSON pointer. It ends above the first key that is too long, is a secret or hides something, because a finding repeats no
    /// content.
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.0 {
            match step {
                Step::Key(key) if is_presentable(key) => pointer.push_str(&format!("/{}", escaped(key))),
                Step::Key(_) => break,
                Step::Index(index) => pointer.push_str(&format!("/{index}")),
            }
        }
        pointer
    }
}

/// Visits each text once: a key with the path of its object, a value with its own path.
pub(super) fn each<'v>(value: &'v Value, visit: &mut dyn FnMut(&Path<'v>, Part, &'v str)) {
    walk(value, &mut Path::default(), visit);
}

/// Escapes a key for a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn walk<'v>(value: &'v Value, path: &mut Path<'v>, visit: &mut dyn FnMut(&Path<'v>, Part, &'v str)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => visit(path, Part::Content, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.within(Step::Index(index), |path| walk(item, path, visit));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                visit(path, Part::Key, key);
                path.within(Step::Key(key), |path| walk(member, path, visit));
            }
        }
    }
}

const PRESENTABLE_BYTES_MAX: usize = 128;

fn is_presentable(key: &str) -> bool {
    key.len() <= PRESENTABLE_BYTES_MAX && !key.chars().any(is_unseen) && redact_text(key) == key
}
