//! Evaluates an org's policies for a call.

use super::facts::Vocabulary;
use super::index::{Policies, Slice};
use super::{BUILTIN, GATES};
use crate::facts::{Approval, CallFacts};
use cedar_policy::{AuthorizationError, Authorizer, Decision, Entities, PolicySet, Request, Response};
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use std::collections::BTreeSet;

impl Policies {
    /// The verdicts of the gates that have policies about the action. Other gates are left out.
    pub(crate) fn ask(&self, call: &CallFacts) -> Vec<GateVerdict> {
        let slice = self.slice(call.action);
        if slice.sets.iter().all(Option::is_none) {
            return Vec::new();
        }
        let asked = Asked::new(&self.vocabulary, call, &slice);
        let concerned = GATES.into_iter().zip(&slice.sets).filter_map(|(gate, set)| set.as_ref().map(|set| (gate, set)));
        let verdicts = concerned.map(|(gate, set)| match (&asked, &**set) {
            (Ok(asked), Ok(set)) => asked.verdict(gate, set),
            (Err(error), _) | (_, Err(error)) => unasked(gate, error.clone()),
        });
        verdicts.collect()
    }
}

/// A call prepared for evaluation: built once, used for all gates.
struct Asked<'a> {
    vocabulary: &'a Vocabulary,
    call: &'a CallFacts<'a>,
    slice: &'a Slice,
    entities: Entities,
    as_is: Request,
    authorizer: Authorizer,
}

impl<'a> Asked<'a> {
    fn new(vocabulary: &'a Vocabulary, call: &'a CallFacts<'a>, slice: &'a Slice) -> Result<Self, String> {
        let entities = vocabulary.entities(call).map_err(|error| error.to_string())?;
        let entities = slice.entities.clone()?.add_entities(entities, None).map_err(|error| error.to_string())?;
        let as_is = request(vocabulary, call, slice, call.approval)?;
        Ok(Self { vocabulary, call, slice, entities, as_is, authorizer: Authorizer::new() })
    }

    fn verdict(&self, gate: Gate, set: &PolicySet) -> GateVerdict {
        let answer = self.answer(&self.as_is, set);
        let would_lift = match (gate, self.call.approval, self.call.obtainable) {
            // No approval replaces a permission. And if an approval was given, it alone counts: a better one is not considered.
            (Gate::Rbac, _, _) | (_, Some(_), _) | (_, None, None) => None,
            (_, None, Some(obtainable)) => Some(obtainable),
        };
        match (answer.verdict, would_lift) {
            (Verdict::Deny, Some(obtainable)) if answer.errors.is_empty() => self.with(obtainable, gate, set, answer),
            _ => answer.told(gate),
        }
    }

    /// Evaluates again as if a person had approved. If the call passes then, the verdict is that it needs approval.
    fn with(&self, obtainable: &Approval, gate: Gate, set: &PolicySet, as_is: Answer) -> GateVerdict {
        let request = match request(self.vocabulary, self.call, self.slice, Some(obtainable)) {
            Ok(request) => request,
            Err(error) => return unasked(gate, error),
        };
        let lifted = self.answer(&request, set);
        if lifted.verdict == Verdict::Ok {
            Answer { verdict: Verdict::NeedsApproval, ..as_is }.told(gate)
        } else {
            as_is.and(lifted).told(gate)
        }
    }

    fn answer(&self, request: &Request, set: &PolicySet) -> Answer {
        Answer::from(&self.authorizer.is_authorized(request, set, &self.entities))
    }
}

/// Cedar's answer, with errors counted as denials.
struct Answer {
    verdict: Verdict,
    determining: BTreeSet<String>,
    errors: BTreeSet<String>,
}

impl From<&Response> for Answer {
    fn from(response: &Response) -> Self {
        let diagnostics = response.diagnostics();
        let mut errors = BTreeSet::new();
        let mut erring = BTreeSet::new();
        for error in diagnostics.errors() {
            let AuthorizationError::PolicyEvaluationError(evaluation) = error;
            erring.insert(evaluation.policy_id().to_string());
            errors.insert(error.to_string());
        }
        let reasons = diagnostics.reason().map(ToString::to_string);
        match response.decision() {
            Decision::Allow if errors.is_empty() => Self { verdict: Verdict::Ok, determining: reasons.collect(), errors },
            // SECURITY: Cedar skips a policy that errors, and a skipped `forbid` did not forbid.
            Decision::Allow => Self { verdict: Verdict::Deny, determining: erring, errors },
            Decision::Deny => Self { verdict: Verdict::Deny, determining: reasons.chain(erring).collect(), errors },
        }
    }
}

impl Answer {
    /// Combines two denials into one.
    fn and(mut self, other: Self) -> Self {
        self.determining.extend(other.determining);
        self.errors.extend(other.errors);
        self
    }

    fn told(self, gate: Gate) -> GateVerdict {
        GateVerdict {
            gate,
            verdict: self.verdict,
            determining: self.determining.into_iter().collect(),
            errors: self.errors.into_iter().collect(),
        }
    }
}

fn request(vocabulary: &Vocabulary, call: &CallFacts, slice: &Slice, approval: Option<&Approval>) -> Result<Request, String> {
    let context = vocabulary.context(call, approval).map_err(|error| error.to_string())?;
    Request::new(vocabulary.principal(call), slice.action.uid(), vocabulary.space(call), context, None).map_err(|error| error.to_string())
}

/// A call that could not be evaluated is denied.
fn unasked(gate: Gate, error: String) -> GateVerdict {
    GateVerdict { gate, verdict: Verdict::Deny, determining: vec![format!("{BUILTIN}evaluable")], errors: vec![error] }
}
