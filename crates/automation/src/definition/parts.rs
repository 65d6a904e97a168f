//! The parts of a definition that have modules of their own, as the passes call them.
//! STAND-IN: each function here becomes one call of `filter`, `schedule`, `template` or `select`.

use crate::Mistake;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `filter::Filter::parse`.
pub(crate) fn filter(filter: &Value) -> Result<(), Vec<Mistake>> {
    const OPERATORS: [&str; 14] = [
        "equals",
        "not_equals",
        "in",
        "not_in",
        "starts_with",
        "ends_with",
        "contains",
        "regex",
        "gt",
        "gte",
        "lt",
        "lte",
        "exists",
        "$not",
    ];
    let mut mistakes = Vec::new();
    let members = filter.as_object().into_iter().flatten();
    for (path, test) in members.clone().filter(|(path, _)| !path.starts_with('$')) {
        for operator in test.as_object().into_iter().flat_map(|tests| tests.keys()).filter(|name| !OPERATORS.contains(&name.as_str())) {
            let mistake = Mistake::new("filter_invalid", format!("there is no operator `{operator}`"));
            mistakes.push(mistake.hint("write `equals` or another operator").under(&format!("/{path}/{operator}")));
        }
    }
    if members.count() > 64 {
        mistakes.push(Mistake::new("filter_too_complex", "the filter has more than 64 tests").hint("split the trigger"));
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// `schedule::Schedule`.
pub(crate) struct Schedule(Value);

/// `schedule::Schedule::parse`.
pub(crate) fn schedule(config: &Value) -> Result<Schedule, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("cron").split_whitespace().count() != 5 {
        mistakes.push(Mistake::new("cron_invalid", "the expression needs five fields").hint("write `0 9 * * 1-5`").under("/cron"));
    }
    if jiff::tz::TimeZone::get(text("timezone")).is_err() {
        mistakes.push(Mistake::new("timezone_unknown", "there is no such time zone").hint("write `Europe/Paris`").under("/timezone"));
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let or = |name: &str, default: &str| config.get(name).cloned().unwrap_or_else(|| default.into());
    Ok(Schedule(
        json!({ "cron": text("cron"), "timezone": text("timezone"), "catch_up": or("catch_up", "last"), "dst_gap": or("dst_gap", "shift"),
        "dst_overlap": or("dst_overlap", "first") }),
    ))
}

impl Schedule {
    pub(crate) fn normalised(&self) -> Value {
        self.0.clone()
    }

    pub(crate) fn warnings(&self) -> Vec<Mistake> {
        let is_frequent = self.0["cron"].as_str().is_some_and(|cron| cron.starts_with("* ") || cron.starts_with("*/5 "));
        let warning =
            || Mistake::new("schedule_frequent", "the schedule fires more often than every 15 minutes").hint("use an event").under("/cron");
        is_frequent.then(warning).into_iter().collect()
    }
}

/// `template::is_template`.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|opening| text.contains(opening))
}

/// `template::Names`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) inputs: Option<BTreeSet<String>>,
    pub(crate) outputs: BTreeSet<String>,
    pub(crate) in_on_failure: bool,
}

/// `template::check`.
pub(crate) fn template(source: &str, names: &Names) -> Result<(), Vec<Mistake>> {
    if source.matches("{{").count() != source.matches("}}").count() {
        return Err(vec![Mistake::new("template_syntax", "the template does not end").hint("close it with `}}`")]);
    }
    source.split("{{").skip(1).try_for_each(|rest| known(rest, names, &names_of_loops(source)))
}

/// `template::check_predicate`.
pub(crate) fn predicate(source: &str, names: &Names) -> Result<(), Vec<Mistake>> {
    known(source.trim_start_matches("{{"), names, &[])
}

fn names_of_loops(source: &str) -> Vec<&str> {
    source.split("{% for ").skip(1).filter_map(|rest| rest.split(' ').next()).collect()
}

fn known(expression: &str, names: &Names, loops: &[&str]) -> Result<(), Vec<Mistake>> {
    let name = expression.trim_start().split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next().unwrap_or_default();
    let rest = expression.trim_start().strip_prefix("inputs.").unwrap_or_default();
    let input = rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next().unwrap_or_default();
    let is_failure = expression.contains("run.error") && !names.in_on_failure;
    let is_undeclared = !input.is_empty() && names.inputs.as_ref().is_some_and(|inputs| !inputs.contains(input));
    let is_known = ["", "run", "inputs"].contains(&name) || names.outputs.contains(name) || loops.contains(&name);
    if is_known && !is_undeclared && !is_failure {
        return Ok(());
    }
    let mistake = Mistake::new("template_undefined", format!("`{name}` is not defined here"));
    Err(vec![mistake.hint("name an input, or the `output_as` of an earlier step")])
}

/// `select::check`.
pub(crate) fn path(path: &str) -> Result<(), Mistake> {
    let parsed = serde_json_path::JsonPath::parse(path);
    parsed
        .map(drop)
        .map_err(|error| Mistake::new("jsonpath_invalid", error.to_string()).hint("write a path from the root, such as `$.data.id`"))
}

/// `select::select`: a singular path gives its value, any other an array of its nodes.
pub(crate) fn select(path: &str, value: &Value) -> Option<Value> {
    let nodes = serde_json_path::JsonPath::parse(path).ok()?.query(value).all();
    let is_singular = !path.contains("..") && !path.contains(['*', '?', ':', ',']);
    match nodes.as_slice() {
        [] => None,
        [node] if is_singular => Some((*node).clone()),
        nodes => Some(nodes.iter().map(|node| (*node).clone()).collect()),
    }
}
