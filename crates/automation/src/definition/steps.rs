//! The pass over steps: their actions, their names, their templates, and what becomes of one that is interrupted.

use super::facts::{ActionFacts, Facts, did_you_mean};
use super::parts::{self, Names};
use super::schema::STEP_LISTS;
use super::triggers::Found;
use super::{aliases, config, input_schema};
use crate::Mistake;
use crate::limits::{ON_FAILURE_SECONDS_MAX, PLAN_STEPS_MAX, RUN_SECONDS_DEFAULT};
use countersign_core::Mode;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const ON_FAILURE: &str = STEP_LISTS[1];
/// Definitions may name it already, and no source has it yet.
const AGENT_STEP: &str = "builtin.agent_task";
/// What every template may read. `loop` belongs to the template language.
const RESERVED: [&str; 3] = ["run", "inputs", "loop"];

/// Those beyond the most that a plan may have are a mistake of the plan, and not looked at.
fn in_list<'a>(value: &'a Value, list: &'static str) -> impl Iterator<Item = (String, &'a Map<String, Value>)> {
    let steps = value.pointer(list).and_then(Value::as_array).into_iter().flatten().take(PLAN_STEPS_MAX).enumerate();
    steps.filter_map(move |(index, step)| Some((format!("{list}/{index}"), step.as_object()?)))
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

pub(super) fn check(value: &Value, facts: &Facts, found: &mut Found) {
    let run_seconds = value.pointer("/execution/timeout_seconds").and_then(Value::as_u64).unwrap_or(RUN_SECONDS_DEFAULT);
    let for_all = value.pointer("/execution/on_interrupted").and_then(Value::as_str);
    let mut names = Names { inputs: input_schema::closed_names(value.pointer("/inputs/schema")), ..Names::default() };
    let mut ids = BTreeSet::new();
    for list in STEP_LISTS {
        names.in_on_failure = list == ON_FAILURE;
        for (place, step) in in_list(value, list) {
            let id = text(step, "step_id");
            if let Some(id) = id.filter(|id| !ids.insert(*id)) {
                let mistake = Mistake::new("step_id_duplicate", format!("another step is called `{id}`"));
                found.add(&format!("{place}/step_id"), [mistake.hint("give each step an id of its own, in `on_failure` too")]);
            }
            let action = check_action(step, &place, facts, found);
            check_interruption(step, &place, action, for_all, found);
            check_timeout(step, &place, if list == ON_FAILURE { ON_FAILURE_SECONDS_MAX } else { run_seconds }, list, found);
            check_templates(step, &place, &names, found);
            if let Some(name) = text(step, "output_as") {
                bind(name, &place, &mut names.outputs, found);
            }
        }
    }
    check_output(value, found);
}

fn check_action<'f>(step: &Map<String, Value>, place: &str, facts: &'f Facts, found: &mut Found) -> Option<&'f ActionFacts> {
    let named = text(step, "action")?;
    let Some(action) = facts.actions.get(named) else {
        if named == AGENT_STEP {
            let mistake = Mistake::new("action_unknown", format!("the agent step (`{AGENT_STEP}`) is not in this version"));
            found.add(&format!("{place}/action"), [mistake]);
            return None;
        }
        let known = facts.actions.keys().map(String::as_str).chain(aliases::names(facts));
        let hint = did_you_mean(named, known, where_actions_are(named, facts));
        let mistake = Mistake::new("action_unknown", format!("there is no action `{named}` in this space"));
        found.add(&format!("{place}/action"), [mistake.hint(hint)]);
        return None;
    };
    if action.mode == Mode::Deny {
        let mistake = Mistake::new("action_denied", format!("`{named}` is denied to whoever saves this"));
        found.add(&format!("{place}/action"), [mistake.hint("choose another action, or ask an admin for another mode")]);
    }
    let empty = Value::Object(Map::new());
    let params = step.get("config").filter(|config| config.is_object()).unwrap_or(&empty);
    found.add(&format!("{place}/config"), config::check(params, &action.params_schema));
    Some(action)
}

/// Where to look for an action that has no name like it: most often its source was never added.
fn where_actions_are(named: &str, facts: &Facts) -> String {
    let is_of = |source: &str, id: &str| id.split_once('.').is_some_and(|(known, _)| known == source);
    match named.split_once('.') {
        Some(("email", _)) if !facts.actions.keys().any(|id| is_of("email", id)) => {
            "it is there once an operator sets `COUNTERSIGN_EMAIL_SERVER`, or an admin adds a connection to a mail server".to_owned()
        }
        Some((source, _)) if !facts.actions.keys().any(|id| is_of(source, id)) => {
            format!("this space has no source `{source}` with actions: `countersign source add {source} --mcp URL` adds one")
        }
        _ => "`countersign action list` shows the actions of this space; an agent finds them in `GET /api/v1/actions`".to_owned(),
    }
}

fn check_interruption(step: &Map<String, Value>, place: &str, action: Option<&ActionFacts>, for_all: Option<&str>, found: &mut Found) {
    let (own, action) = (text(step, "on_interrupted"), action.filter(|action| !action.is_repeatable()));
    if action.is_none() || own.or(for_all) != Some("retry") {
        return;
    }
    let named = text(step, "action").unwrap_or_default();
    let message = format!("`retry` could make `{named}` happen twice: it is no read, and not idempotent");
    let hint = format!("write `ask_human` or `fail` for the step `{}`", text(step, "step_id").unwrap_or_default());
    // Where it was written: for this step, or for all.
    let place = if own.is_some() { place } else { "/execution" };
    found.add(&format!("{place}/on_interrupted"), [Mistake::new("on_interrupted_retry_unsafe", message).hint(hint)]);
}

fn check_timeout(step: &Map<String, Value>, place: &str, most: u64, list: &str, found: &mut Found) {
    let Some(seconds) = step.get("timeout_seconds").and_then(Value::as_u64).filter(|seconds| *seconds > most) else { return };
    let whole = if list == ON_FAILURE { "the steps of `on_failure` have" } else { "the run has" };
    let message = format!("the step may take {seconds} s, and {whole} {most} s");
    let hint = if list == ON_FAILURE {
        format!("write {most} at most")
    } else {
        format!("write {most} at most, or raise `execution.timeout_seconds`")
    };
    found.add(&format!("{place}/timeout_seconds"), [Mistake::new("timeout_exceeds_run", message).hint(hint)]);
}

fn check_templates(step: &Map<String, Value>, place: &str, names: &Names, found: &mut Found) {
    if let Some(when) = text(step, "when") {
        found.add(&format!("{place}/when"), parts::predicate(when, names).err().into_iter().flatten());
    }
    let mut leaves = Vec::new();
    if let Some(params) = step.get("config") {
        config::texts(params, String::new(), &mut leaves);
    }
    for (pointer, text) in leaves.into_iter().filter(|(_, text)| parts::is_template(text)) {
        found.add(&format!("{place}/config{pointer}"), parts::template(text, names).err().into_iter().flatten());
    }
}

fn bind(name: &str, place: &str, outputs: &mut BTreeSet<String>, found: &mut Found) {
    let is_reserved = RESERVED.contains(&name);
    if is_reserved || !outputs.insert(name.to_owned()) {
        let message = if is_reserved { format!("`{name}` is reserved") } else { format!("an earlier step has the name `{name}`") };
        found.add(
            &format!("{place}/output_as"),
            [Mistake::new("output_name_taken", message).hint(format!("write another name, such as `{name}_2`"))],
        );
    }
}

fn check_output(value: &Value, found: &mut Found) {
    let Some(named) = value.pointer("/execution/output_from").and_then(Value::as_str) else { return };
    let ids: Vec<&str> = in_list(value, STEP_LISTS[0]).filter_map(|(_, step)| text(step, "step_id")).collect();
    if !ids.contains(&named) {
        let all = ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
        let mistake = Mistake::new("step_unknown", format!("the plan has no step `{named}`"));
        found.add("/execution/output_from", [mistake.hint(did_you_mean(named, ids, format!("write one of {all}")))]);
    }
}

/// Writes into each step what becomes of it when it is interrupted.
pub(super) fn write_in(value: &mut Value, facts: &Facts) {
    let for_all = value.pointer("/execution/on_interrupted").cloned();
    for list in STEP_LISTS {
        for step in value.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            if step.contains_key("on_interrupted") {
                continue;
            }
            let is_repeatable = text(step, "action").and_then(|action| facts.actions.get(action)).is_some_and(ActionFacts::is_repeatable);
            let inferred = if is_repeatable { "retry" } else { "ask_human" };
            step.insert("on_interrupted".to_owned(), for_all.clone().unwrap_or_else(|| inferred.into()));
        }
    }
}
