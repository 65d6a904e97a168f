//! The first look at a definition: whether it is small enough to look at further.

use crate::Mistake;
use countersign_core::limits::{DEFINITION_BYTES_MAX, DEFINITION_DEPTH_MAX};
use serde_json::Value;

pub(super) fn check(value: &Value) -> Result<(), Vec<Mistake>> {
    let wrong = |message: String, hint: &str| Err(vec![Mistake::new("definition_too_large", message).hint(hint)]);
    if depth(value, DEFINITION_DEPTH_MAX) > DEFINITION_DEPTH_MAX {
        return wrong(format!("the definition is nested deeper than {DEFINITION_DEPTH_MAX} levels"), "flatten what is nested most");
    }
    if bytes(value) > DEFINITION_BYTES_MAX {
        let message = format!("the definition is larger than {} KB", DEFINITION_BYTES_MAX / 1024);
        return wrong(message, "keep data in documents or inputs, and split the plan into automations that follow each other by events");
    }
    Ok(())
}

/// Levels of lists and objects; counting ends one above `max`.
pub(super) fn depth(value: &Value, max: usize) -> usize {
    let below: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    if max == 0 {
        return 1;
    }
    1 + below.map(|value| depth(value, max - 1)).max().unwrap_or(0)
}

/// As compact JSON.
pub(crate) fn bytes(value: &Value) -> usize {
    value.to_string().len()
}
