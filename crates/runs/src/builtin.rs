//! The source `builtin`: actions of the steps of automations themselves. It is here and not among the other sources because what it does is
//! what a definition says, and `automation` alone reads paths and schemas. Its actions compute: they reach nothing and change nothing.

use automation::limits::{JSONPATH_CHARS_MAX, TRANSFORM_SELECTED_MAX};
use automation::{Mistake, transform};
use countersign_core::action::{InvalidActionId, Repeatability, Reversibility};
use countersign_core::limits::LOW_TIMEOUT_MS;
use countersign_core::source::{CallContext, Error as SourceError, Output, Source};
use countersign_core::{Action, ActionId, Future, OrgId, SourceId, Tier};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

const BUILTIN: &str = "builtin";

/// The source `builtin`.
pub struct Builtin {
    id: SourceId,
    action: Arc<Action>,
}

impl Builtin {
    /// Fails only if a definition of ours is broken, which a test rules out.
    pub fn new() -> Result<Self, InvalidActionId> {
        Ok(Self { id: SourceId::parse(BUILTIN)?, action: Arc::new(definition()?) })
    }
}

/// Computes apart from the threads that answer requests: a check by a schema may take a while.
async fn perform(id: &ActionId, action: &ActionId, params: &Value) -> Result<Output, SourceError> {
    if action != id {
        return Err(SourceError::Refused { code: "unknown_action", message: format!("there is no action `{action}`") });
    }
    let params = params.clone();
    let transformed = tokio::task::spawn_blocking(move || transform::transform(&params)).await;
    let no_turn = |_| SourceError::NoTurn { source_id: BUILTIN.to_owned(), message: "the server is stopping".to_owned() };
    let value = transformed.map_err(no_turn)?.map_err(refused)?;
    Ok(Output { value, quality_thousandths: 1_000, evidence: None })
}

fn refused(mistake: Mistake) -> SourceError {
    let Mistake { pointer, code, message, hint } = mistake;
    let place = if pointer.is_empty() { String::new() } else { format!("at `{pointer}`: ") };
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    SourceError::Refused { code, message: format!("{place}{message}{hint}") }
}

impl Source for Builtin {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn title(&self) -> &str {
        "Built in"
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        Some(include_str!("builtin/guide.md").into())
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, SourceError>> {
        Box::pin(std::future::ready(Ok(vec![Arc::clone(&self.action)])))
    }

    fn call<'a>(&'a self, _context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, SourceError>> {
        Box::pin(perform(&self.action.id, action, params))
    }
}

fn definition() -> Result<Action, InvalidActionId> {
    let path = json!({ "type": "string", "minLength": 1, "maxLength": JSONPATH_CHARS_MAX });
    let paths = json!({ "type": "object", "additionalProperties": path, "maxProperties": TRANSFORM_SELECTED_MAX });
    Ok(Action {
        version: "1.0.0".to_owned(),
        title: "Transform data".to_owned(),
        description:
            "Takes parts of a value by JSONPath, and checks them by a JSON Schema. The result is an object; anything else becomes \
            its member `value`."
                .to_owned(),
        params_schema: json!({
            "type": "object",
            "properties": {
                "value": { "description": "The value: in a step of an automation, often with templates." },
                "select": { "anyOf": [path, paths],
                    "description": "A JSONPath (RFC 9535), or several by name, each for one member of the result. A path that can only ever \
                        mean one place gives its value, any other an array. A named one that finds nothing is left out." },
                "output_schema": { "type": "object", "description": "The JSON Schema (2020-12) that the result must fit." },
            },
            "required": ["value"],
            "additionalProperties": false,
        }),
        result_schema: json!({ "type": "object" }),
        requires: vec!["builtin.transform".to_owned()],
        timeout_ms: LOW_TIMEOUT_MS,
        reversibility: Reversibility::NoEffect,
        repeatability: Repeatability::Repeatable,
        ..Action::new(ActionId::parse("builtin.transform_data")?, Tier::R0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_is_transformed_and_a_mistake_says_where_it_is() {
        let action = definition().unwrap();
        let called = async |name: &str, params: Value| perform(&action.id, &ActionId::parse(name).unwrap(), &params).await;
        let done = called("builtin.transform_data", json!({ "value": { "a": 1 }, "select": "$.a" })).await.unwrap();
        assert_eq!((done.value, done.evidence), (json!({ "value": 1 }), None));
        let wrong = called("builtin.transform_data", json!({ "value": 1, "select": { "a": "$[" } })).await.unwrap_err();
        assert_eq!(wrong.code(), "transform_invalid");
        assert!(wrong.to_string().starts_with("at `/select/a`: "), "{wrong}");
        assert_eq!(called("builtin.other", json!({})).await.unwrap_err().code(), "unknown_action");
    }

    #[test]
    fn its_definition_promises_no_effect() {
        let builtin = Builtin::new().unwrap();
        let action = &builtin.action;
        assert_eq!((action.tier, action.reversibility, &action.effects), (Tier::R0, Reversibility::NoEffect, &Vec::new()));
        assert_eq!((builtin.id().as_str(), action.id.source()), (BUILTIN, BUILTIN));
        let guide = builtin.guide().unwrap();
        assert!(guide.contains("countersign actions run --integration builtin --action transform_data "), "{guide}");
    }
}
