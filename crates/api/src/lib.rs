//! What travels over the wire: requests, answers and problems, each with its conversion from the inside.
//! The inside is free to change; these shapes are a promise, and `openapi.json` is their golden picture.

pub mod limits;
pub mod action;
pub mod allowed;
pub mod artifact;
pub mod automation;
pub mod batch;
pub mod channel;
pub mod codes;
pub mod compat;
pub mod connection;
pub mod document;
pub mod event;
pub mod event_types;
pub mod finding;
pub mod gates;
pub mod identity;
pub mod invocation;
pub mod long_text;
pub mod observe;
pub mod package;
pub mod problem;
pub mod receipt;
pub mod rules;
pub mod run;
pub mod secret;
pub mod source;
pub mod stream;

pub use codes::{Advice, Code, NextStep};
pub use problem::Problem;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of a list. Give `next` back as `after` to read on; it is null on the last page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}
