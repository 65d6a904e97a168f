//! The builtin sources, one file each, and `ALL` lists them: `files` works on a workspace folder, `documents` on the texts that a space keeps,
//! `http` on allowed hosts, `notify` on people, `email` through a mail server. The functions below are shared by all of them. A source trusts no
//! earlier check, so it parses the params again.

pub mod documents;
pub mod email;
pub mod files;
pub mod http;
pub mod notify;

use crate::mail::{Mailer, Senders};
use crate::words::refused;
use crate::workspace::Places;
use countersign_core::notification::Notifier;
use countersign_core::ports::Documents;
use countersign_core::source::{Error, Source};
use countersign_core::{Action, ActionId, Clock, Random, SourceId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The version of every builtin definition, until one of them changes.
const VERSION: &str = "1.0.0";

/// Every builtin source, in the order in which they are listed.
pub const ALL: [Builtin; 5] = [files::BUILTIN, documents::BUILTIN, http::BUILTIN, notify::BUILTIN, email::BUILTIN];

/// A builtin source.
pub struct Builtin {
    actions: fn() -> Result<Vec<Arc<Action>>, crate::Error>,
    open: Open,
}

enum Open {
    /// Once for all orgs; `None` where an operator has not set up what it needs.
    Once(fn(&Parts) -> Result<Option<Opened>, crate::Error>),
    /// For each org, on its workspaces.
    OnPlaces(fn(&Parts, Arc<Places>) -> Result<Opened, crate::Error>),
}

pub type Opened = Arc<dyn Source>;

/// What builtin sources are made of.
pub struct Parts {
    pub documents: Arc<dyn Documents>,
    pub notifier: Arc<dyn Notifier>,
    pub http: http::HttpConfig,
    /// `None` where no mail server is named.
    pub mail: Option<(Arc<Mailer>, Arc<dyn Senders>)>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// The sources that keep no state of an org.
pub fn open_once(parts: &Parts) -> Result<Vec<Opened>, crate::Error> {
    let opened = ALL.iter().filter_map(|builtin| match builtin.open {
        Open::Once(open) => open(parts).transpose(),
        Open::OnPlaces(_) => None,
    });
    opened.collect()
}

/// The sources that work on these workspaces.
pub fn open_on(places: &Arc<Places>, parts: &Parts) -> Result<Vec<Opened>, crate::Error> {
    let opened = ALL.iter().filter_map(|builtin| match builtin.open {
        Open::Once(_) => None,
        Open::OnPlaces(open) => Some(open(parts, Arc::clone(places))),
    });
    opened.collect()
}

/// The definitions of all builtin sources, for code that only compares with them.
pub fn definitions() -> Result<Vec<Arc<Action>>, crate::Error> {
    let all: Result<Vec<_>, _> = ALL.iter().map(|builtin| (builtin.actions)()).collect();
    Ok(all?.concat())
}

fn source_id(slug: &str) -> Result<SourceId, crate::Error> {
    SourceId::parse(slug).map_err(crate::Error::Definition)
}

fn action_id(text: &str) -> Result<ActionId, crate::Error> {
    ActionId::parse(text).map_err(crate::Error::Definition)
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
