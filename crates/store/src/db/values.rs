//! The values of rows and parameters, the same on both engines.

use crate::Error;
use countersign_core::Timestamp;
use countersign_core::invocation::ReceiptRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::str::FromStr;

/// A value in a row or a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Val {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One row, columns in the order they were selected.
pub(crate) type Row = Vec<Val>;

/// A statement whose result is not needed.
pub(crate) type Statement = (&'static str, Vec<Val>);

/// Reads columns left to right.
pub(crate) struct Columns(std::vec::IntoIter<Val>);

impl Columns {
    pub(crate) fn of(row: Row) -> Self {
        Self(row.into_iter())
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        match self.0.next() {
            Some(Val::Text(text)) => Ok(text),
            other => Err(unexpected("text", other)),
        }
    }

    pub(crate) fn text_or_null(&mut self) -> Result<Option<String>, Error> {
        match self.0.next() {
            Some(Val::Null) => Ok(None),
            Some(Val::Text(text)) => Ok(Some(text)),
            other => Err(unexpected("text or null", other)),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, Error> {
        match self.0.next() {
            Some(Val::Int(int)) => Ok(int),
            other => Err(unexpected("an integer", other)),
        }
    }

    pub(crate) fn int_or_null(&mut self) -> Result<Option<i64>, Error> {
        match self.0.next() {
            Some(Val::Null) => Ok(None),
            Some(Val::Int(int)) => Ok(Some(int)),
            other => Err(unexpected("an integer or null", other)),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.0.next() {
            Some(Val::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected("bytes", other)),
        }
    }

    pub(crate) fn bytes_or_null(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.0.next() {
            Some(Val::Null) => Ok(None),
            Some(Val::Bytes(bytes)) => Ok(Some(bytes)),
            other => Err(unexpected("bytes or null", other)),
        }
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Error> {
        self.int().map(Timestamp::from_micros)
    }

    pub(crate) fn time_or_null(&mut self) -> Result<Option<Timestamp>, Error> {
        Ok(self.int_or_null()?.map(Timestamp::from_micros))
    }

    pub(crate) fn id<T: FromStr>(&mut self) -> Result<T, Error> {
        self.parsed(|text| text.parse().ok())
    }

    pub(crate) fn id_or_null<T: FromStr>(&mut self) -> Result<Option<T>, Error> {
        self.parsed_or_null(|text| text.parse().ok())
    }

    /// A text that must parse as one of our words or ids.
    pub(crate) fn parsed<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Error> {
        let text = self.text()?;
        parse(&text).ok_or_else(|| Error::Corrupt { message: format!("`{text}` is not a value this column may hold") })
    }

    /// A text that must be the JSON of a `T`.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        serde_json::from_str(&self.text()?).map_err(|error| Error::Corrupt { message: format!("stored JSON does not read: {error}") })
    }

    /// The id of a receipt and its position in the audit log, from two columns.
    pub(crate) fn receipt(&mut self) -> Result<Option<ReceiptRef>, Error> {
        let (id, seq) = (self.id_or_null()?, self.int_or_null()?);
        Ok(id.zip(seq).map(|(id, seq)| ReceiptRef { id, seq: seq as u64 }))
    }

    pub(crate) fn parsed_or_null<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Error> {
        match self.text_or_null()? {
            None => Ok(None),
            Some(text) => {
                parse(&text).map(Some).ok_or_else(|| Error::Corrupt { message: format!("`{text}` is not a value this column may hold") })
            }
        }
    }
}

/// Reads the first row. The query returns at most one.
pub(crate) fn only<T>(rows: Vec<Row>, read: impl FnOnce(Row) -> Result<T, Error>) -> Result<Option<T>, Error> {
    rows.into_iter().next().map(read).transpose()
}

/// Reads every row.
pub(crate) fn all<T>(rows: Vec<Row>, read: impl FnMut(Row) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    rows.into_iter().map(read).collect()
}

/// The number in the only row, or 0 if there is no row.
pub(crate) fn count(rows: Vec<Row>) -> Result<i64, Error> {
    only(rows, |row| Columns::of(row).int()).map(Option::unwrap_or_default)
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Corrupt { message: format!("a value has no JSON: {error}") })
}

fn unexpected(wanted: &str, got: Option<Val>) -> Error {
    let got = match got {
        None => "no column",
        Some(Val::Null) => "null",
        Some(Val::Int(_)) => "an integer",
        Some(Val::Text(_)) => "text",
        Some(Val::Bytes(_)) => "bytes",
    };
    Error::Corrupt { message: format!("expected {wanted}, found {got}") }
}

impl From<i64> for Val {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Timestamp> for Val {
    fn from(value: Timestamp) -> Self {
        Self::Int(value.as_micros())
    }
}

impl From<&str> for Val {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Val {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Val {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Val {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Parameters of a statement, in order.
macro_rules! vals {
    ($($value:expr),* $(,)?) => { [$($crate::db::values::Val::from($value)),*] };
}
pub(crate) use vals;
