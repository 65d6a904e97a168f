//! The values a filter compares with: what JSON has but objects and arrays.

use super::Number;
use serde::Serialize;
use serde_json::Value;

/// An operand. Its order is only that of the sorted lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
}

/// The same, borrowed from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScalarRef<'e> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'e str),
}

impl Scalar {
    pub(crate) fn of(value: &Value) -> Option<Self> {
        ScalarRef::of(value).map(|scalar| match scalar {
            ScalarRef::Null => Self::Null,
            ScalarRef::Bool(bool) => Self::Bool(bool),
            ScalarRef::Number(number) => Self::Number(number),
            ScalarRef::Text(text) => Self::Text(text.into()),
        })
    }

    pub(crate) fn as_ref(&self) -> ScalarRef<'_> {
        match self {
            Self::Null => ScalarRef::Null,
            Self::Bool(bool) => ScalarRef::Bool(*bool),
            Self::Number(number) => ScalarRef::Number(*number),
            Self::Text(text) => ScalarRef::Text(text),
        }
    }
}

impl<'e> ScalarRef<'e> {
    /// Nothing, of an object or an array.
    pub(crate) fn of(value: &'e Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(bool) => Some(Self::Bool(*bool)),
            Value::Number(number) => Some(Self::Number(Number::of(number))),
            Value::String(text) => Some(Self::Text(text)),
            Value::Array(_) | Value::Object(_) => None,
        }
    }
}
