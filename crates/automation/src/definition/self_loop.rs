//! Whether a run of an automation may start the same automation again, as far as its own trigger says.
//! While it runs, the chain of causes is what stops a loop; this only tells its author in time.

use super::facts::Facts;
use crate::Mistake;
use serde_json::Value;

/// What the events of runs have in common.
const RUNS: &str = "automation.run.";

pub(super) fn warning(event_type: &str, config: &Value, definition: &Value, facts: &Facts) -> Option<Mistake> {
    let wildcard = event_type.strip_suffix('*');
    let tells_of_runs = event_type.starts_with(RUNS) || wildcard.is_some_and(|above| RUNS.starts_with(above));
    let ignores_runs = definition.pointer("/execution/chain_policy").and_then(Value::as_str) == Some("ignore_runs");
    if !tells_of_runs || ignores_runs {
        return None;
    }
    let name = definition.get("name").and_then(Value::as_str);
    let filter = config.get("filters");
    let excludes = |path: &str, own: Option<&str>| filter.and_then(|filter| filter.get(path)).is_some_and(|test| excludes(test, own));
    if excludes("data.automation_id", facts.automation_id.as_deref()) || excludes("data.automation_name", name) {
        return None;
    }
    let warning = Mistake::new("may_trigger_itself", format!("a run of this automation publishes `{RUNS}…`, which may start it again"));
    Some(warning.hint("name the automations that it follows: `{\"data.automation_id\": {\"in\": […]}}`").under("/event_type"))
}

/// Whether no value of this automation passes the test. One that is not saved yet has an id that nobody could name.
fn excludes(test: &Value, own: Option<&str>) -> bool {
    let is_own = |value: &Value| own.is_some_and(|own| value == own);
    let lists_own = |values: &Value| values.as_array().is_some_and(|values| values.iter().any(is_own));
    match test {
        Value::Object(tests) => tests.iter().any(|(operator, operand)| match operator.as_str() {
            "equals" => !is_own(operand),
            "in" => !lists_own(operand),
            "not_equals" => is_own(operand),
            "not_in" => lists_own(operand),
            _ => false,
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => !is_own(test),
    }
}
