//! The builtin sources, one file each: `files` works on a workspace folder, `documents` on the texts that a space keeps, `http` on allowed hosts,
//! `notify` on people, `email` through a mail server. The functions below are shared by all of them. A source trusts no earlier check, so it parses the params again.

pub mod documents;
pub mod email;
pub mod files;
pub mod http;
pub mod notify;

use crate::words::refused;
use countersign_core::source::Error;
use countersign_core::{Action, ActionId, SourceId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The version of every builtin definition, until one of them changes.
const VERSION: &str = "1.0.0";

fn source_id(slug: &str) -> Result<SourceId, crate::Error> {
    SourceId::parse(slug).map_err(crate::Error::Definition)
}

fn action_id(text: &str) -> Result<ActionId, crate::Error> {
    ActionId::parse(text).map_err(crate::Error::Definition)
}

/// The definitions of all builtin sources, for code that only compares with them.
pub fn definitions() -> Result<Vec<Arc<Action>>, crate::Error> {
    let mut all = files::definition::actions()?;
    all.extend(documents::definition::actions()?);
    all.extend(http::definition::actions()?);
    all.push(Arc::new(notify::definition()?));
    all.push(Arc::new(email::definition()?));
    Ok(all)
}

/// Parses the params of an action. The error message leaves out the values, because they may be secret.
fn read_params<T: for<'de> Deserialize<'de>>(action: &ActionId, params: &Value) -> Result<T, Error> {
    T::deserialize(params).map_err(|_| refused("invalid_params", format!("the params do not fit the schema of `{action}`")))
}

fn unknown_action(action: &ActionId) -> Error {
    refused("unknown_action", format!("there is no action `{action}`"))
}

/// The schema of an object that has these properties and no others.
fn object_schema(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

#[cfg(test)]
#[path = "builtin_tests.rs"]
pub(crate) mod tests;
