//! The pass over triggers: their ids, their configs, and what they ask of the inputs and the execution.

use super::facts::{Facts, did_you_mean};
use super::{input_schema, parts, self_loop};
use crate::Mistake;
use crate::limits::TRIGGERS_MAX;
use countersign_core::json::escape;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What the passes found: mistakes, and what is allowed but worth a look.
#[derive(Default)]
pub(super) struct Found {
    pub(super) mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<Mistake>,
}

impl Found {
    pub(super) fn add(&mut self, place: &str, mistakes: impl IntoIterator<Item = Mistake>) {
        self.mistakes.extend(mistakes.into_iter().map(|mistake| mistake.under(place)));
    }

    pub(super) fn warn(&mut self, place: &str, warnings: impl IntoIterator<Item = Mistake>) {
        self.warnings.extend(warnings.into_iter().map(|warning| warning.under(place)));
    }
}

/// Those beyond the most that there may be are a mistake of the whole, and not looked at.
fn of(value: &Value) -> impl Iterator<Item = (String, &Map<String, Value>)> {
    let triggers = value.get("triggers").and_then(Value::as_array).into_iter().flatten().take(TRIGGERS_MAX).enumerate();
    triggers.filter_map(|(index, trigger)| Some((format!("/triggers/{index}"), trigger.as_object()?)))
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

pub(super) fn check(value: &Value, facts: &Facts, found: &mut Found) {
    let mut ids = BTreeSet::new();
    for (place, trigger) in of(value) {
        if let Some(id) = text(trigger, "trigger_id").filter(|id| !ids.insert(*id)) {
            let mistake = Mistake::new("trigger_id_duplicate", format!("another trigger is called `{id}`"));
            found.add(&format!("{place}/trigger_id"), [mistake.hint("give each trigger an id of its own, or leave it out")]);
        }
        let place = format!("{place}/config");
        let empty = Value::Object(Map::new());
        let config = trigger.get("config").unwrap_or(&empty);
        match text(trigger, "type") {
            Some("schedule") => check_schedule(value, config, &place, found),
            Some("webhook") => check_webhook(value, config, &place, found),
            Some("event") => check_event(value, config, &place, facts, found),
            _ => {}
        }
        check_mapping(value, config, &place, found);
    }
}

fn check_schedule(value: &Value, config: &Value, place: &str, found: &mut Found) {
    match parts::schedule(config) {
        Ok(schedule) => found.warn(place, schedule.warnings()),
        Err(mistakes) => found.add(place, mistakes),
    }
    let runs_all = config.get("catch_up").is_some_and(|catch_up| catch_up == "all" || catch_up.get("all").is_some());
    let concurrency = value.pointer("/execution/concurrency").and_then(Value::as_str).unwrap_or("drop_if_running");
    if runs_all && concurrency == "drop_if_running" {
        let mistake = Mistake::new("catch_up_needs_queue", "`all` missed times cannot run where a firing is dropped while a run goes on");
        found.add(&format!("{place}/catch_up"), [mistake.hint("set `execution.concurrency` to `queue`, or `catch_up` to `last`")]);
    }
}

fn check_webhook(value: &Value, config: &Value, place: &str, found: &mut Found) {
    if let Some(filter) = config.get("filters").filter(|filter| filter.is_object()) {
        let inputs = input_schema::closed_names(value.pointer("/inputs/schema"));
        found.add(&format!("{place}/filters"), parts::webhook_filter(filter, inputs.as_ref()).err().into_iter().flatten());
    }
}

fn check_event(value: &Value, config: &Value, place: &str, facts: &Facts, found: &mut Found) {
    let types = || facts.event_types.iter().map(String::as_str);
    let event_type = config.get("event_type").and_then(Value::as_str);
    if let Some(named) = event_type.filter(|named| !is_registered(named, facts)) {
        let warning = Mistake::new("event_type_unregistered", format!("the server itself publishes no events of type `{named}`"));
        let hint = did_you_mean(named, types(), "it is started by those that somebody publishes, as with `countersign event publish`");
        found.warn(&format!("{place}/event_type"), [warning.hint(hint)]);
    }
    if let Some(filter) = config.get("filters").filter(|filter| filter.is_object()) {
        found.add(&format!("{place}/filters"), parts::event_filter(filter).err().into_iter().flatten());
    }
    found.warn(place, event_type.and_then(|event_type| self_loop::warning(event_type, config, value, facts)));
    let Some(batch) = config.get("batch") else { return };
    if config.get("debounce_seconds").and_then(Value::as_u64).is_some_and(|seconds| seconds > 0) {
        let mistake = Mistake::new("debounce_and_batch", "a trigger waits for the last event or collects all of them, not both");
        found.add(&format!("{place}/debounce_seconds"), [mistake.hint("take `debounce_seconds` or `batch` away")]);
    }
    let events = value.pointer("/inputs/schema/properties/events/type").and_then(Value::as_str);
    if batch.is_object() && events != Some("array") {
        let mistake =
            Mistake::new("batch_needs_events", "the collected events are the input `events`, and the inputs declare no such array");
        let hint = "add `\"events\": {\"type\": \"array\"}` to the properties of `inputs.schema`";
        found.add(&format!("{place}/batch"), [mistake.hint(hint)]);
    }
}

/// Whether the server itself publishes events of the type, or of one below `….*`.
fn is_registered(named: &str, facts: &Facts) -> bool {
    match named.strip_suffix('*') {
        Some(above) => facts.event_types.iter().any(|event_type| event_type.starts_with(above)),
        None => facts.event_types.contains(named),
    }
}

fn check_mapping(value: &Value, config: &Value, place: &str, found: &mut Found) {
    let schema = value.pointer("/inputs/schema").unwrap_or(&Value::Null);
    for (name, path) in config.get("input_mapping").and_then(Value::as_object).into_iter().flatten() {
        let place = format!("{place}/input_mapping/{}", escape(name));
        if !input_schema::names(schema).any(|known| known == name) {
            let mistake = Mistake::new("mapping_target_unknown", format!("there is no input `{name}`"));
            let otherwise = format!("add `{name}` to the properties of `inputs.schema`");
            found.add(&place, [mistake.hint(did_you_mean(name, input_schema::names(schema), otherwise))]);
        }
        found.add(&place, path.as_str().and_then(|path| parts::path(path).err()));
    }
}

/// Writes in what was left out: ids, configs, the defaults of schedules, and the tests that filters have in short.
pub(super) fn write_in(value: &mut Value) {
    let mut taken: BTreeSet<String> = of(value).filter_map(|(_, trigger)| text(trigger, "trigger_id").map(str::to_owned)).collect();
    for trigger in value.get_mut("triggers").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        let kind = text(trigger, "type").unwrap_or_default().to_owned();
        if !trigger.contains_key("trigger_id") {
            let id = free_id(&kind, &taken);
            taken.insert(id.clone());
            trigger.insert("trigger_id".to_owned(), Value::String(id));
        }
        let config = trigger.entry("config").or_insert_with(|| json!({}));
        if kind == "schedule" {
            write_in_schedule(config);
        }
        if let Some(filter) = config.get_mut("filters") {
            write_out_tests(filter);
        }
    }
}

fn free_id(kind: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number: u32| format!("{kind}_{number}"));
    std::iter::once(kind.to_owned()).chain(numbered).find(|id| !taken.contains(id)).unwrap_or_default()
}

fn write_in_schedule(config: &mut Value) {
    let Ok(schedule) = parts::schedule(config) else { return };
    let mapping = config.get("input_mapping").cloned();
    *config = schedule.normalised();
    if let (Some(config), Some(mapping)) = (config.as_object_mut(), mapping) {
        config.insert("input_mapping".to_owned(), mapping);
    }
}

/// A bare value is short for `equals`.
fn write_out_tests(filter: &mut Value) {
    for (name, test) in filter.as_object_mut().into_iter().flatten() {
        match name.as_str() {
            "$and" | "$or" => test.as_array_mut().into_iter().flatten().for_each(write_out_tests),
            "$not" => write_out_tests(test),
            _ if !test.is_object() => *test = json!({ "equals": test.take() }),
            _ => {}
        }
    }
}
