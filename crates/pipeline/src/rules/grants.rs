//! The limits of a grant: whether they make sense by themselves, and for the action that the grant is about.

use crate::error::{Error, ParamError};
use crate::limits::{GRANT_SECONDS_MAX, GRANT_SUM_POINTER_BYTES_MAX, GRANT_SUM_SECONDS_MAX};
use countersign_core::grant::SumMax;
use countersign_core::{Action, Amount};
use serde_json::Value;

/// Checks that a grant covers at least one call, expires, and adds up a param that can be there. `at` is the pointer to the grant in the
/// request.
pub fn check_bounds(at: &str, calls_max: Option<u32>, sum_max: Option<&SumMax>, lifetime_seconds: u64) -> Result<(), Error> {
    let mut errors = Vec::new();
    let mut wrong = |member: &str, message: String| errors.push(ParamError { pointer: format!("{at}/sum_max/{member}"), message });
    if let Some(SumMax { max, of, per_seconds }) = sum_max {
        if !is_pointer(of) || of.len() > GRANT_SUM_POINTER_BYTES_MAX {
            wrong("of", format!("must be a JSON pointer such as `/amount`, of {GRANT_SUM_POINTER_BYTES_MAX} bytes at most"));
        }
        if *max == Amount::default() {
            wrong("max", "must be more than 0".into());
        }
        if !(1..=GRANT_SUM_SECONDS_MAX).contains(per_seconds) {
            wrong("per", format!("must be 1 s to {GRANT_SUM_SECONDS_MAX} s"));
        }
    }
    if calls_max == Some(0) {
        errors.push(ParamError { pointer: format!("{at}/calls_max"), message: "must be at least 1".into() });
    }
    if !(1..=GRANT_SECONDS_MAX).contains(&lifetime_seconds) {
        errors.push(ParamError { pointer: format!("{at}/expires_in"), message: format!("must be 1 s to {GRANT_SECONDS_MAX} s") });
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::InvalidRequest { errors }) }
}

/// Checks that calls of this action can have an amount where the sum is made of. A grant that no call could use would look like trust.
pub fn check_sum_of(at: &str, sum_max: Option<&SumMax>, action: &Action) -> Result<(), Error> {
    let Some(SumMax { of, .. }) = sum_max else { return Ok(()) };
    let steps: Vec<_> = of.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    if can_have_amount(&action.params_schema, &steps) {
        return Ok(());
    }
    let message = format!("`{}` has no param there that could be an amount", action.id);
    Err(Error::InvalidRequest { errors: vec![ParamError { pointer: format!("{at}/sum_max/of"), message }] })
}

/// Whether something that fits this schema can have a number or a text at these steps. What cannot be told from the schema alone can.
fn can_have_amount(schema: &Value, steps: &[String]) -> bool {
    if *schema == Value::Bool(false) {
        return false;
    }
    if schema.get("$ref").is_some() || schema.get("$dynamicRef").is_some() {
        return true;
    }
    let may_be = |kind: &str| match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        Some(_) | None => true,
    };
    let Some((step, deeper)) = steps.split_first() else {
        return may_be("number") || may_be("integer") || may_be("string");
    };
    let is_index = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
    if is_index && may_be("array") {
        return true;
    }
    if !may_be("object") {
        return false;
    }
    match (schema.get("properties").and_then(|properties| properties.get(step)), schema.get("patternProperties")) {
        (Some(property), _) => can_have_amount(property, deeper),
        (None, Some(_)) => true,
        (None, None) => schema.get("additionalProperties").is_none_or(|others| can_have_amount(others, deeper)),
    }
}

/// Whether this is an RFC 6901 pointer to something inside the params, not to all of them.
fn is_pointer(text: &str) -> bool {
    let is_step = |step: &str| step.split('~').skip(1).all(|escaped| escaped.starts_with(['0', '1']));
    text.strip_prefix('/').is_some_and(|steps| steps.split('/').all(is_step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::{ActionId, Tier};
    use serde_json::json;

    #[test]
    fn a_sum_has_a_param_a_bound_and_a_window() {
        let sum = |of: &str, max: &str, per_seconds| SumMax { max: Amount::parse(max).unwrap(), of: of.to_owned(), per_seconds };
        for (bound, is_fine) in [
            (sum("/amount", "500", 86_400), true),
            (sum("/order/total~1net/0", "0.01", GRANT_SUM_SECONDS_MAX), true),
            (sum("", "500", 86_400), false),
            (sum("amount", "500", 86_400), false),
            (sum("/a~2", "500", 86_400), false),
            (sum("/a~", "500", 86_400), false),
            (sum(&format!("/{}", "a".repeat(GRANT_SUM_POINTER_BYTES_MAX)), "500", 86_400), false),
            (sum("/amount", "0", 86_400), false),
            (sum("/amount", "500", 0), false),
            (sum("/amount", "500", GRANT_SUM_SECONDS_MAX + 1), false),
        ] {
            assert_eq!(check_bounds("", None, Some(&bound), 60).is_ok(), is_fine, "{bound:?}");
        }
    }

    #[test]
    fn a_sum_is_made_of_a_param_that_the_action_can_have() {
        let mut action = Action::new(ActionId::parse("shop.refund").unwrap(), Tier::R2);
        let line = json!({ "type": "object", "properties": { "net": { "type": ["number", "null"] } }, "additionalProperties": false });
        action.params_schema = json!({
            "type": "object",
            "properties": {
                "amount": { "type": "number" }, "fast": { "type": "boolean" }, "order": line, "a/b": {}, "elsewhere": { "$ref": "#/$defs/x" },
                "lines": { "type": "array" }, "open": { "type": "object" }, "texts": { "additionalProperties": { "type": "string" } },
                "flags": { "additionalProperties": { "type": "boolean" } }, "never": false, "any": { "patternProperties": { "^x": {} } },
            },
            "additionalProperties": false,
        });
        for (of, is_fine) in [
            ("/amount", true),
            ("/order/net", true),
            ("/a~1b", true),
            ("/a~1b/deep", true),
            ("/elsewhere/total", true),
            ("/lines/0/net", true),
            ("/open/total", true),
            ("/texts/total", true),
            ("/any/xs", true),
            ("/nope", false),
            ("/amount/net", false),
            ("/fast", false),
            ("/order", false),
            ("/order/gross", false),
            ("/lines/net", false),
            ("/flags/one", false),
            ("/never", false),
        ] {
            let bound = SumMax { max: Amount::parse("1").unwrap(), of: of.to_owned(), per_seconds: 60 };
            assert_eq!(check_sum_of("", Some(&bound), &action).is_ok(), is_fine, "{of}");
        }
        // A definition that says nothing of its params refuses none.
        let open = Action::new(ActionId::parse("shop.refund").unwrap(), Tier::R2);
        let bound = SumMax { max: Amount::parse("1").unwrap(), of: "/nope".to_owned(), per_seconds: 60 };
        assert!(check_sum_of("", Some(&bound), &open).is_ok() && check_sum_of("", None, &action).is_ok());
    }
}
