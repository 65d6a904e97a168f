//! The parts of a definition that have modules of their own, as the passes call them.

use crate::filter::Filter;
use crate::{Mistake, select};
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) use crate::schedule::Schedule;
pub(crate) use crate::template::{Names, check as template, check_predicate as predicate, is_template};

pub(crate) fn event_filter(filter: &Value) -> Result<Filter, Vec<Mistake>> {
    Filter::of_events(filter)
}

pub(crate) fn webhook_filter(filter: &Value, inputs: Option<&BTreeSet<String>>) -> Result<Filter, Vec<Mistake>> {
    Filter::of_webhooks(filter, inputs)
}

pub(crate) fn schedule(config: &Value) -> Result<Schedule, Vec<Mistake>> {
    Schedule::parse(config)
}

pub(crate) fn path(path: &str) -> Result<select::Path, Mistake> {
    select::Path::parse(path)
}
