//! Turns texts into policies: parses them, gives each its id, and validates them against the schema. Each problem names its place.

use super::index::{Policies, Rule};
use super::schema::groups;
use super::{BUILTIN, GATES, PolicyProblem, PolicyTexts, bounds, schema};
use crate::limits::{POLICIES_MAX, POLICY_ID_CHARS_MAX};
use cedar_policy::{Policy, PolicyId, PolicySet, Schema, ValidationError, ValidationMode, ValidationWarning, Validator};
use countersign_core::Action;
use countersign_core::decision::Gate;
use miette::Diagnostic;
use std::collections::HashSet;
use std::sync::Arc;

/// Checks policies that are about to be saved: each must have a unique id and must be evaluable for these actions. A policy that could
/// never apply is refused too, because it would protect nothing.
pub fn compile(texts: &PolicyTexts, actions: &[Arc<Action>]) -> Result<Policies, Vec<PolicyProblem>> {
    let (rules, mut problems) = read(texts);
    match Schema::from_cedarschema_str(&schema(&distinct(actions, &rules))) {
        Ok((schema, _)) => {
            let validator = Validator::new(schema);
            for (gate, rules) in GATES.into_iter().zip(&rules) {
                problems.extend(invalid(&validator, gate, texts.text_of(gate).unwrap_or_default(), rules));
            }
        }
        Err(error) => problems.push(PolicyProblem::found(Gate::Rbac, None, "", 0, &error)),
    }
    finish(rules, problems)
}

/// Loads policies that were accepted earlier. The actions they name may be gone since: a policy about such an action never applies, and a
/// policy that cannot be evaluated denies.
pub fn load(texts: &PolicyTexts) -> Result<Policies, Vec<PolicyProblem>> {
    let (rules, problems) = read(texts);
    finish(rules, problems)
}

fn finish(rules: [Vec<Rule>; 4], mut problems: Vec<PolicyProblem>) -> Result<Policies, Vec<PolicyProblem>> {
    if problems.is_empty() {
        return Policies::new(rules).map_err(|error| vec![PolicyProblem::found(Gate::Rbac, None, "", 0, &*error)]);
    }
    problems.sort_by(|a, b| (a.gate, a.line, a.column, &a.message).cmp(&(b.gate, b.line, b.column, &b.message)));
    // Only the first problem at a place is kept; the others follow from it.
    problems.dedup_by(|next, kept| (next.gate, next.line, next.column, &next.id) == (kept.gate, kept.line, kept.column, &kept.id));
    Err(problems)
}

/// The policies of each gate that could be parsed, and the problems of the rest.
fn read(texts: &PolicyTexts) -> ([Vec<Rule>; 4], Vec<PolicyProblem>) {
    let mut problems = Vec::new();
    let mut ids = HashSet::new();
    let rules = GATES.map(|gate| {
        let text = texts.text_of(gate).unwrap_or_default();
        let policies = match parse(gate, text) {
            Ok(policies) => policies,
            Err(found) => {
                problems.extend(found);
                return Vec::new();
            }
        };
        let named = policies.iter().filter_map(|policy| match name(gate, text, policy, &mut ids) {
            Ok(rule) => Some(rule),
            Err(problem) => {
                problems.push(problem);
                None
            }
        });
        named.collect()
    });
    let count: usize = rules.iter().map(Vec::len).sum();
    if count > POLICIES_MAX {
        let message = format!("there are {count} policies, and {POLICIES_MAX} are the most an org may have");
        problems.push(PolicyProblem::at(Gate::Rbac, None, &texts.rbac, 0, message));
    }
    (rules, problems)
}

/// The policies of a gate, in the order of the text.
fn parse(gate: Gate, text: &str) -> Result<Vec<Policy>, Vec<PolicyProblem>> {
    bounds::check(gate, text).map_err(|problem| vec![problem])?;
    let set: PolicySet = text.parse().map_err(|errors: cedar_policy::ParseErrors| {
        errors.iter().map(|error| PolicyProblem::found(gate, None, text, 0, error).advised(error)).collect::<Vec<_>>()
    })?;
    let templates = set.templates().map(|template| {
        let start = template.as_ref().loc().map_or(0, |place| place.start());
        PolicyProblem::at(
            gate,
            template.annotation("id"),
            text,
            start,
            "a policy cannot have slots such as `?principal`: name who it is about",
        )
    });
    let templates: Vec<_> = templates.collect();
    if !templates.is_empty() {
        return Err(templates);
    }
    let mut policies: Vec<Policy> = set.policies().cloned().collect();
    policies.sort_by_key(|policy| place(policy).start);
    Ok(policies)
}

/// Gives the policy the id that its author wrote.
fn name(gate: Gate, text: &str, policy: &Policy, ids: &mut HashSet<String>) -> Result<Rule, PolicyProblem> {
    let place = place(policy);
    let refuse = |id, message: String| Err(PolicyProblem::at(gate, id, text, place.start, message));
    let Some(id) = policy.annotation("id").filter(|id| !id.is_empty()) else {
        return refuse(None, "the policy has no name: begin it with `@id(\"…\")`".to_owned());
    };
    if id.chars().count() > POLICY_ID_CHARS_MAX || id.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return refuse(Some(id), format!("an id is at most {POLICY_ID_CHARS_MAX} characters without spaces"));
    }
    if id.starts_with(BUILTIN) {
        return refuse(Some(id), format!("ids that begin with `{BUILTIN}` are Countersign's own"));
    }
    if !ids.insert(id.to_owned()) {
        return refuse(Some(id), format!("another policy has the id `{id}`: an id names one policy over all gates"));
    }
    let source = text.get(place.clone()).unwrap_or_default().to_owned();
    Ok(Rule { id: id.to_owned(), start: place.start, source, policy: policy.new_id(PolicyId::new(id)) })
}

/// The byte range of the policy in its text, annotations included.
fn place(policy: &Policy) -> std::ops::Range<usize> {
    policy.as_ref().loc().map_or(0..0, |place| place.start()..place.end())
}

/// The actions that validation must consider: those that the policies name, and one of each kind of the others. Actions that no policy
/// names and that are in the same groups cannot be told apart, and validation takes time for each action.
fn distinct(actions: &[Arc<Action>], rules: &[Vec<Rule>; 4]) -> Vec<Arc<Action>> {
    let literals = rules.iter().flatten().flat_map(|rule| rule.policy.entity_literals());
    let named: HashSet<String> = literals.map(|literal| literal.id().unescaped().to_owned()).collect();
    let mut kinds = HashSet::new();
    let is_distinct = |action: &&Arc<Action>| named.contains(action.id.as_str()) || kinds.insert(groups(action).collect::<Vec<_>>());
    actions.iter().filter(is_distinct).cloned().collect()
}

/// The policies of a gate that cannot be evaluated, or that never apply.
fn invalid(validator: &Validator, gate: Gate, text: &str, rules: &[Rule]) -> Vec<PolicyProblem> {
    let set = match PolicySet::from_policies(rules.iter().map(|rule| rule.policy.clone())) {
        Ok(set) => set,
        Err(error) => return vec![PolicyProblem::found(gate, None, text, 0, &error)],
    };
    let problem = |id: &PolicyId, found: &dyn Diagnostic| {
        let id: &str = id.as_ref();
        let start = rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.start);
        PolicyProblem::found(gate, Some(id), text, start, found)
    };
    let result = validator.validate(&set, ValidationMode::Strict);
    let mut wrong = HashSet::new();
    let mut problems = Vec::new();
    for error in result.validation_errors() {
        wrong.insert(error.policy_id());
        let problem = problem(error.policy_id(), error);
        // Cedar's suggestion for a misspelt action is rarely close.
        problems.push(if matches!(error, ValidationError::UnrecognizedActionId(_)) { problem } else { problem.advised(error) });
    }
    for warning in result.validation_warnings().filter(|warning| is_refused(warning) && !wrong.contains(warning.policy_id())) {
        problems.push(problem(warning.policy_id(), warning));
    }
    problems
}

/// Whether a warning of Cedar is reason enough to refuse: the policy never applies, or it looks different from what it is.
fn is_refused(warning: &ValidationWarning) -> bool {
    match warning {
        ValidationWarning::ImpossiblePolicy(_)
        | ValidationWarning::InvalidActionApplication(_)
        | ValidationWarning::BidiCharsInString(_)
        | ValidationWarning::BidiCharsInIdentifier(_) => true,
        // Names come in many scripts, and a string may mix them.
        ValidationWarning::MixedScriptString(_)
        | ValidationWarning::MixedScriptIdentifier(_)
        | ValidationWarning::ConfusableIdentifier(_) => false,
        _ => true,
    }
}
