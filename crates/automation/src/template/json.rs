//! How values look: a string as itself, nothing as nothing, everything else as JSON, with keys in order and integers exact.

use super::error::Reason;
use crate::limits::TEMPLATE_OUTPUT_BYTES_MAX;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use serde_json::Number;
use std::fmt;

/// How deep a value may nest that is written.
const DEPTH_MAX: usize = 100;

/// A limit of ours that was reached. It travels as the source of the engine's error.
#[derive(Debug)]
pub(super) struct Limit(pub(super) Reason);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.code())
    }
}

impl std::error::Error for Limit {}

pub(super) fn too_large(what: &str) -> Error {
    let message = format!("{what} is larger than {TEMPLATE_OUTPUT_BYTES_MAX} bytes");
    Error::new(ErrorKind::InvalidOperation, message).with_source(Limit(Reason::Output))
}

pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

pub(super) fn undefined() -> Error {
    Error::from(ErrorKind::UndefinedError)
}

/// A value as it is rendered.
pub(super) fn text_of(value: &Value) -> Result<String, Error> {
    let mut writer = Writer { text: String::new(), integers_fit: false };
    match value.as_str() {
        Some(string) => writer.push(string)?,
        None if value.is_none() => {}
        None => writer.write(value, 0)?,
    }
    Ok(writer.text)
}

/// A value as JSON, strings in quotes.
pub(super) fn json_of(value: &Value) -> Result<String, Error> {
    let mut writer = Writer { text: String::new(), integers_fit: false };
    writer.write(value, 0)?;
    Ok(writer.text)
}

/// A value with its JSON type.
pub(super) fn value_of(value: &Value) -> Result<serde_json::Value, Error> {
    // The text is bounded, so what is read from it is bounded as well.
    let mut writer = Writer { text: String::new(), integers_fit: true };
    writer.write(value, 0)?;
    serde_json::from_str(&writer.text).map_err(|error| failed(format!("the value has no form in JSON: {error}")))
}

struct Writer {
    text: String,
    /// Whether an integer that a reader of the text would round is refused.
    integers_fit: bool,
}

impl Writer {
    fn push(&mut self, more: &str) -> Result<(), Error> {
        if self.text.len() + more.len() > TEMPLATE_OUTPUT_BYTES_MAX {
            return Err(too_large("the result"));
        }
        self.text.push_str(more);
        Ok(())
    }

    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(failed(format!("the value nests more than {DEPTH_MAX} levels")));
        }
        match value.kind() {
            ValueKind::None => self.push("null"),
            ValueKind::Bool => self.push(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.write_number(value),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.push("[")?;
                for (at, item) in value.try_iter()?.enumerate() {
                    if at > 0 {
                        self.push(", ")?;
                    }
                    self.write(&item, depth + 1)?;
                }
                self.push("]")
            }
            ValueKind::Map => {
                self.push("{")?;
                for (at, key) in value.try_iter()?.enumerate() {
                    if at > 0 {
                        self.push(", ")?;
                    }
                    match key.as_str() {
                        Some(key) => self.write_string(key)?,
                        None => self.write_string(&json_of(&key)?)?,
                    }
                    self.push(": ")?;
                    self.write(&value.get_item(&key)?, depth + 1)?;
                }
                self.push("}")
            }
            ValueKind::Undefined => Err(undefined()),
            other @ (ValueKind::Bytes | ValueKind::Plain | ValueKind::Invalid | _) => {
                Err(failed(format!("a value of the kind `{other}` cannot be rendered")))
            }
        }
    }

    fn write_string(&mut self, string: &str) -> Result<(), Error> {
        if string.len() > TEMPLATE_OUTPUT_BYTES_MAX {
            return Err(too_large("a string"));
        }
        let quoted = serde_json::to_string(string).map_err(|error| failed(error.to_string()))?;
        self.push(&quoted)
    }

    fn write_number(&mut self, value: &Value) -> Result<(), Error> {
        if value.is_integer() {
            let number = i128::try_from(value.clone())?;
            if self.integers_fit && !(i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number) {
                return Err(failed(format!("`{number}` is beyond the integers of 64 bits")));
            }
            return self.push(&number.to_string());
        }
        let number = f64::try_from(value.clone())?;
        let number = Number::from_f64(number).ok_or_else(|| failed(format!("`{number}` is no number of JSON")))?;
        self.push(&number.to_string())
    }
}
