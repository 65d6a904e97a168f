//! An action, compiled so that calls can be checked against it.

use super::schema::{Schema, UnusableSchema};
use countersign_core::action::{Effect, Reversibility};
use countersign_core::source::Error;
use countersign_core::{Action, Digest, Tier};
use std::sync::Arc;

/// An action, compiled so that calls can be checked against it: its schemas are compiled and its digests computed once.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) action: Arc<Action>,
    pub(crate) structural: Digest,
    pub(crate) textual: Digest,
    pub(crate) params: Arc<Schema>,
    pub(crate) result: Arc<Schema>,
    /// Archived so that receipts can be verified against it later: digest and canonical text.
    pub(crate) archive: Arc<[(Digest, String); 2]>,
    /// What the scan found, also in comparison with the actions of other sources.
    pub(crate) findings: Vec<policy::Finding>,
}

impl Definition {
    /// Compiles everything except the findings, which depend on the other sources.
    pub(super) fn new(action: Arc<Action>) -> Result<Self, Error> {
        check_promise(&action)?;
        let structural = policy::digest::structural(&action);
        let textual = policy::digest::textual(&action);
        let archive = [(structural, policy::digest::structural_body(&action)), (textual, policy::digest::textual_body(&action))];
        let params = Arc::new(compile(&action, &action.params_schema)?);
        let result = Arc::new(compile(&action, &action.result_schema)?);
        Ok(Self { structural, textual, params, result, archive: Arc::new(archive), findings: Vec::new(), action })
    }
}

/// Tier R2 is for writes that are verified and can be reverted; a file write that is not both is refused.
fn check_promise(action: &Action) -> Result<(), Error> {
    let writes = action.tier == Tier::R2 && action.effects.contains(&Effect::FilesystemWrite);
    if writes && (action.reversibility != Reversibility::Reversible || action.checks.is_empty()) {
        let message = format!("action `{}` writes at tier R2, but its effect is not verified or cannot be reverted", action.id);
        return Err(Error::Failed { code: "definition_invalid", message });
    }
    Ok(())
}

fn compile(action: &Action, schema: &serde_json::Value) -> Result<Schema, Error> {
    Schema::compile(schema).map_err(|error| Error::Failed {
        code: "definition_invalid",
        message: format!("the schema of action `{}` does not compile: {error}", action.id),
    })
}

/// Whether this is a valid schema for params, and cheap enough to check by.
pub fn check_schema(schema: &serde_json::Value) -> Result<(), String> {
    Schema::compile(schema).map(|_| ()).map_err(|error| error.to_string())
}

/// Like `check_schema`, for the condition of a grant, in which every keyword must constrain or describe.
pub fn check_condition(schema: &serde_json::Value) -> Result<(), UnusableSchema> {
    Schema::compile(schema)?.check_keywords()
}
