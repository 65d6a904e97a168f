//! Reads hand-written JSON and continues after a mistake. Each mistake says its place and what to do. An unknown field is a mistake too: a
//! misspelt permission must not pass for one that was never requested.

use super::mistake::{Mistake, nearest, one_of};
use crate::words::shown;
use countersign_core::json::{escape, parse_strict};
use serde_json::{Map, Value};

/// So many mistakes of one kind are reported one by one; the others are counted, or reported once these are corrected.
pub(super) const SAID_OF_ONE_MAX: usize = 20;

/// The fields of one object.
pub(super) struct Fields<'v, 'm> {
    file: &'m str,
    pointer: String,
    /// `None` if the value is not an object, which is already reported as a mistake.
    members: Option<&'v Map<String, Value>>,
    known: Vec<&'static str>,
    /// Fields that are refused with an explanation of their own.
    refused: Vec<&'static str>,
    mistakes: &'m mut Vec<Mistake>,
}

/// The JSON value of a file; `None` if the file is not valid JSON, which is then reported as a mistake.
pub(super) fn parse(bytes: &[u8], file: &str, mistakes: &mut Vec<Mistake>) -> Option<Value> {
    let error = match parse_strict(bytes) {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let hint = "correct the JSON; every field stands in it once";
    let mistake = match text_place(&error.message) {
        Some((message, line, column)) => Mistake::new(file, format!("it is not JSON we take: {message}"), hint).at_text(line, column),
        None => Mistake::new(file, format!("it is not JSON we take: {}", error.message), hint).at_field(error.pointer),
    };
    mistakes.push(mistake);
    None
}

/// Splits a parser's message `… at line 3 column 5` into the message, the line and the column.
fn text_place(message: &str) -> Option<(&str, u32, u32)> {
    let (message, place) = message.rsplit_once(" at line ")?;
    let (line, column) = place.split_once(" column ")?;
    Some((message, line.parse().ok()?, column.parse().ok()?))
}

/// Reads the object that a whole file consists of.
pub(super) fn read<'v, T>(value: &'v Value, file: &str, mistakes: &mut Vec<Mistake>, read: impl FnOnce(&mut Fields<'v, '_>) -> T) -> T {
    below(value, file, String::new(), mistakes, read)
}

fn below<'v, T>(
    value: &'v Value,
    file: &str,
    pointer: String,
    mistakes: &mut Vec<Mistake>,
    read: impl FnOnce(&mut Fields<'v, '_>) -> T,
) -> T {
    if !value.is_object() {
        let hint = "write its fields between `{` and `}`";
        mistakes.push(Mistake::new(file, format!("it must be an object, and is {}", kind(value)), hint).at_field(pointer.clone()));
    }
    let mut fields = Fields { file, pointer, members: value.as_object(), known: Vec::new(), refused: Vec::new(), mistakes };
    let read = read(&mut fields);
    fields.refuse_unknown();
    read
}

impl<'v> Fields<'v, '_> {
    /// Reports a mistake in one of the fields.
    pub(super) fn wrong(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        let pointer = self.pointer_of(key);
        self.mistakes.push(Mistake::new(self.file, message, hint).at_field(pointer));
    }

    /// A missing field and `null` are the same: no value.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'v Value> {
        self.known.push(key);
        self.members?.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.typed(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn flag(&mut self, key: &'static str) -> bool {
        self.typed(key, "`true` or `false`", Value::as_bool).unwrap_or(false)
    }

    pub(super) fn number(&mut self, key: &'static str) -> Option<u64> {
        self.typed(key, "a whole number, not below 0", Value::as_u64)
    }

    pub(super) fn texts(&mut self, key: &'static str) -> Vec<String> {
        let of = |value: &Value| value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        self.typed(key, "a list of texts", of).unwrap_or_default()
    }

    /// An object whose keys are chosen by the author, such as paths.
    pub(super) fn members(&mut self, key: &'static str) -> Option<&'v Map<String, Value>> {
        self.typed(key, "an object", Value::as_object)
    }

    /// A field whose value must be one of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let said = self.value(key)?;
        let found = said.as_str().and_then(|said| words.iter().find(|(word, _)| *word == said));
        if found.is_none() {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let (quoted, text) = match said.as_str() {
                Some(text) => (format!("`{}`", shown(text)), text),
                None => (kind(said).to_owned(), ""),
            };
            self.wrong(key, format!("{quoted} is not a `{key}`"), one_of(text, &names));
        }
        found.map(|(_, value)| *value)
    }

    /// A nested object. If it is missing, the result is the default.
    pub(super) fn object<T: Default>(&mut self, key: &'static str, read: impl FnOnce(&mut Fields<'v, '_>) -> T) -> T {
        let Some(value) = self.value(key) else { return T::default() };
        let pointer = self.pointer_of(key);
        below(value, self.file, pointer, self.mistakes, read)
    }

    /// A list of nested objects. If it is missing, the list is empty.
    pub(super) fn objects<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Fields<'v, '_>) -> T) -> Vec<T> {
        let items = self.typed(key, "a list of objects", Value::as_array).into_iter().flatten().enumerate();
        let pointer = self.pointer_of(key);
        items.map(|(at, item)| below(item, self.file, format!("{pointer}/{at}"), self.mistakes, &mut read)).collect()
    }

    /// Reports a mistake if the field is missing.
    pub(super) fn required(&mut self, key: &'static str, example: &str) {
        let is_missing = self.members.is_some_and(|members| !members.contains_key(key));
        if is_missing {
            self.wrong(key, "it is missing", format!("write it, such as `{example}`"));
        }
    }

    /// Refuses a field that does not exist but that an author may well expect.
    pub(super) fn refuse(&mut self, key: &'static str, message: &str, hint: &str) {
        self.refused.push(key);
        if self.members.is_some_and(|members| members.contains_key(key)) {
            self.wrong(key, message, hint);
        }
    }

    fn typed<T>(&mut self, key: &'static str, expected: &str, read: impl FnOnce(&'v Value) -> Option<T>) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value);
        if read.is_none() {
            self.wrong(key, format!("it must be {expected}, and is {}", kind(value)), format!("write {expected}"));
        }
        read
    }

    fn refuse_unknown(&mut self) {
        let mut unknown: Vec<_> = self
            .members
            .into_iter()
            .flat_map(Map::keys)
            .filter(|key| !self.known.contains(&key.as_str()) && !self.refused.contains(&key.as_str()))
            .collect();
        let more = unknown.len().saturating_sub(SAID_OF_ONE_MAX);
        unknown.truncate(SAID_OF_ONE_MAX);
        for key in unknown {
            let hint = match nearest(key, self.known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("take it out; the fields here are {}", self.known.join(", ")),
            };
            self.wrong(key, format!("there is no field `{}` here", shown(key)), hint);
        }
        if more > 0 {
            let message = format!("{more} more fields in it are not known");
            self.mistakes.push(Mistake::new(self.file, message, "take them out").at_field(self.pointer.clone()));
        }
    }

    fn pointer_of(&self, key: &str) -> String {
        format!("{}/{}", self.pointer, escape(key))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "`null`",
        Value::Bool(true) => "`true`",
        Value::Bool(false) => "`false`",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(items) if items.is_empty() => "an empty list",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
