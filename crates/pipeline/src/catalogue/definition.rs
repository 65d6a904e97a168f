//! An action made ready to check calls with.

use countersign_core::action::{Effect, Reversibility};
use countersign_core::source::Error;
use countersign_core::{Action, Digest, Tier};
use jsonschema::{PatternOptions, Validator};
use std::sync::Arc;

/// An action made ready to check calls with: schemas compiled, digests computed, once.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) action: Arc<Action>,
    pub(crate) structural: Digest,
    pub(crate) textual: Digest,
    pub(crate) params: Arc<Validator>,
    pub(crate) result: Arc<Validator>,
    /// Kept so that receipts can be verified against it later: digest and canonical text.
    pub(crate) archive: Arc<[(Digest, String); 2]>,
    /// What is odd about it, also beside the actions of the other sources.
    pub(crate) findings: Vec<policy::Finding>,
}

impl Definition {
    /// Compiles everything; the findings are left to whoever knows the other sources.
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

/// R2 is for what is checked and can be taken back: a write that is neither has no business there.
fn check_promise(action: &Action) -> Result<(), Error> {
    let writes = action.tier == Tier::R2 && action.effects.contains(&Effect::FilesystemWrite);
    if writes && (action.reversibility != Reversibility::Reversible || action.checks.is_empty()) {
        let message = format!("action `{}` writes at tier R2, and is not checked afterwards or cannot be taken back", action.id);
        return Err(Error::Failed { code: "definition_invalid", message });
    }
    Ok(())
}

fn compile(action: &Action, schema: &serde_json::Value) -> Result<Validator, Error> {
    compile_condition(schema).map_err(|error| Error::Failed {
        code: "definition_invalid",
        message: format!("the schema of action `{}` does not compile: {error}", action.id),
    })
}

/// Whether this is a schema that params can be held against.
pub fn check_condition(schema: &serde_json::Value) -> Result<(), String> {
    compile_condition(schema).map(|_| ())
}

/// SECURITY: patterns run on a linear-time engine and references are resolved inside the schema only, since schemas come from strangers.
pub(crate) fn compile_condition(schema: &serde_json::Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}
