//! Reading a definition: the passes in their order. This file has the order and nothing else.

use super::facts::Facts;
use super::triggers::Found;
use super::{Definition, aliases, bounds, dollars, input_schema, queue, shape, steps, triggers};
use crate::limits::{DEFINITION_MISTAKES_MAX, METADATA_BYTES_MAX};
use crate::{Mistake, inputs};
use countersign_core::{Digest, json};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A definition without a mistake.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub definition: Definition,
    /// What is stored. Reading it again gives the same.
    pub normalised: Value,
    /// SHA-256 of the canonical JSON of `normalised`, every digit of its integers kept.
    pub hash: Digest,
    /// What is allowed but worth a look.
    pub warnings: Vec<Mistake>,
}

/// Reads a definition as somebody wrote it. All mistakes come at once, in the order of the document.
pub fn read(written: &Value, facts: &Facts) -> Result<Read, Vec<Mistake>> {
    bounds::check(written)?;
    let mut imported = aliases::import(written, facts);
    let value = &imported.value;
    let shape = shape::check(value);
    let mut found = Found { mistakes: std::mem::take(&mut imported.mistakes), warnings: Vec::new() };
    if let Some(schema) = value.pointer("/inputs/schema").filter(|schema| schema.is_object()) {
        let mistakes = match input_schema::check(schema) {
            Ok(defaults) if defaults.is_empty() => Vec::new(),
            Ok(defaults) => inputs::check_defaults(schema, &defaults),
            Err(mistakes) => mistakes,
        };
        found.add("/inputs/schema", mistakes);
    }
    triggers::check(value, facts, &mut found);
    steps::check(value, facts, &mut found);
    check_execution(value, facts, &mut found);
    check_metadata(value, &mut found);

    let as_written = |mistakes: Vec<Mistake>| mistakes.into_iter().map(|mistake| imported.as_written(mistake)).collect::<Vec<_>>();
    let mistakes = together(as_written(shape), as_written(std::mem::take(&mut found.mistakes)), written);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let warnings = as_written(found.warnings);
    normalise(imported.value, facts, warnings)
}

/// What the schema finds gives way where a pass knows the same mistake better: at its place, or further down with the same code.
fn together(shape: Vec<Mistake>, better: Vec<Mistake>, written: &Value) -> Vec<Mistake> {
    let is_known = |mistake: &Mistake| {
        let same = |known: &Mistake| match known.pointer.strip_prefix(mistake.pointer.as_str()) {
            Some("") => true,
            Some(below) => below.starts_with('/') && known.code == mistake.code,
            None => false,
        };
        better.iter().any(same)
    };
    let mut all: Vec<Mistake> = shape.into_iter().filter(|mistake| !is_known(mistake)).collect();
    all.extend(better);
    all.sort_by_cached_key(|mistake| place(&mistake.pointer, written));
    all.dedup();
    all.truncate(DEFINITION_MISTAKES_MAX);
    all
}

/// Where a pointer leads, as positions from the root. What is not there comes last.
fn place(pointer: &str, root: &Value) -> Vec<usize> {
    let mut at = Some(root);
    let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    steps
        .map(|step| {
            let (position, below) = match at {
                Some(Value::Object(members)) => (members.keys().position(|name| *name == step), members.get(&step)),
                Some(Value::Array(items)) => (step.parse().ok(), step.parse::<usize>().ok().and_then(|index| items.get(index))),
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => (None, None),
            };
            at = below;
            position.unwrap_or(usize::MAX)
        })
        .collect()
}

fn check_execution(value: &Value, facts: &Facts, found: &mut Found) {
    let of = |name: &str| value.pointer(&format!("/execution/{name}"));
    if let Some(cap) = of("budget_cap_usd").filter(|cap| cap.as_f64().is_some_and(|cap| cap >= 0.0) && dollars::read(cap).is_none()) {
        let mistake = Mistake::new("money_precision", format!("{cap} has more than six decimals"));
        found.add("/execution/budget_cap_usd", [mistake.hint("write millionths of a dollar at the finest, such as 0.000001")]);
    }
    if let Some(named) = of("queue").and_then(Value::as_str) {
        found.add("/execution/queue", queue::mistake(named, facts));
    }
    let drops_oldest = of("max_queued/drop").and_then(Value::as_str) == Some("oldest");
    if drops_oldest && of("concurrency").and_then(Value::as_str) != Some("queue") {
        let mistake = Mistake::new("drop_needs_queue", "no firing waits, so there is no oldest one to drop");
        found.add("/execution/max_queued/drop", [mistake.hint("set `execution.concurrency` to `queue`, or take `drop` away")]);
    }
}

fn check_metadata(value: &Value, found: &mut Found) {
    if value.get("metadata").is_some_and(|metadata| bounds::bytes(metadata) > METADATA_BYTES_MAX) {
        let mistake = Mistake::new("metadata_too_large", format!("the metadata is larger than {} KB", METADATA_BYTES_MAX / 1024));
        found.add("/metadata", [mistake.hint("keep what only helps to find it")]);
    }
}

fn normalise(mut value: Value, facts: &Facts, warnings: Vec<Mistake>) -> Result<Read, Vec<Mistake>> {
    triggers::write_in(&mut value);
    steps::write_in(&mut value, facts);
    // The passes have accepted it, so these fail only if a pass forgot something; then the definition is refused, not half read.
    let unread = |message: String| vec![Mistake::new("type", message).hint("compare it with the schema of definitions")];
    let definition: Definition = serde_json::from_value(value).map_err(|error| unread(json::in_plain_words(&error)))?;
    let normalised = serde_json::to_value(&definition).map_err(|error| unread(error.to_string()))?;
    let canonical = json::canonical_digits(&normalised).map_err(|error| unread(error.to_string()))?;
    let hash = Digest::new(Sha256::digest(canonical.as_bytes()).into());
    Ok(Read { definition, normalised, hash, warnings })
}
