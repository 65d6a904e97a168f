//! Stage 10: the end. The stored result is redacted and truncated; `ending.rs` writes it.

use super::admit::{Step, Walked};
use super::artifacts::{MEMBER, take_out};
use super::checks::{Looked, Verified};
use super::ending::{Ending, Recorded, charge, evidence_digest, is_away};
use super::execute::{Done, may_be_made_again};
use super::ground::Walk;
use super::media;
use super::reward::Execution;
use super::truncate::truncate;
use crate::error::Error;
use crate::limits::{QUARANTINE_SECONDS, RESULT_STORED_BYTES_MAX};
use crate::request::Outcome;
use countersign_core::effect::{Aftermath, Purpose, Remedy};
use countersign_core::invocation::Intention;
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::{GrantUse, KeyFate, NewQuarantine, Row};
use countersign_core::quarantine::{Caught, Holds};
use countersign_core::{Amount, Digest, Invocation, InvocationId, OrgId, PrincipalId, Status, json};
use durable::Pace;
use receipt::body::Outputs;
use serde_json::Value;

impl Walk {
    pub(crate) async fn record(&self, looked: Looked) -> Result<Walked, Error> {
        let Verified { done, failure } = match looked {
            Looked::Verified(verified) => verified,
            Looked::InDoubt(invocation) => return Ok(Step::Done(Outcome::of(invocation))),
        };
        let Done { origin, definition, mut invocation, row, answer, policy_slice, approval, key, idempotency, walking, .. } = *done;
        let unbegun = if row == Row::Insert { origin.undecided() } else { None };
        let mut result = None;
        let (mut outputs, mut evidence, mut quality_thousandths) = (None, None, 0);
        let mut grant_use = GrantUse::Kept;
        let (mut quarantine, mut whole_result) = (None, None);
        let mut kept = Vec::new();
        let claimed = claimed_digest(&*key, &invocation)?;
        match answer {
            Ok(output) => {
                charge(&mut invocation, |price| price.of(Some(&output.value)));
                let findings = policy::scan_output(&output.value);
                let mut caught = crate::walk::gate::caught(&findings);
                let (mut handed_on, unreadable) = self.take_out_of_answer(&invocation.org, &invocation.space, &output.value).await;
                caught.extend(unreadable);
                outputs = Some(outputs_of(&*key, &output.value, !caught.is_empty()));
                if output.evidence.is_some() {
                    invocation.evidence = output.evidence;
                }
                evidence = invocation.evidence.as_ref().map(|value| evidence_digest(&*key, value));
                quality_thousandths = output.quality_thousandths;
                let declared = &definition.action.produces_artifacts;
                let makes = !declared.is_empty() && self.keeps_artifacts() && invocation.intention == Intention::Effect;
                // An answer that is withheld gives nothing out, also not what was made.
                let made = if makes && caught.is_empty() { take_out(&mut handed_on, declared) } else { None };
                let is_of_server = definition.action.server_sha256.is_some();
                let media = if is_of_server && caught.is_empty() { media::take_out(&mut handed_on) } else { Vec::new() };
                let mut safe = policy::redact(&handed_on).value;
                if let Some(made) = made {
                    let (artifacts, listed) = self.keep_all(&invocation, made).await;
                    kept = artifacts;
                    if let Some(object) = safe.as_object_mut() {
                        object.insert(MEMBER.to_owned(), Value::Array(listed));
                    }
                }
                if !media.is_empty() {
                    let (places, made): (Vec<_>, Vec<_>) = media.into_iter().map(|lifted| (lifted.pointer, lifted.entry)).unzip();
                    let (artifacts, told) = self.keep_all(&invocation, made).await;
                    kept.extend(artifacts);
                    places.iter().zip(told).for_each(|(place, told)| media::put_in(&mut safe, place, told));
                }
                if !findings.is_empty() {
                    self.label_untrusted(&invocation.org, &invocation.session, &invocation.id).await;
                }
                if !caught.is_empty() {
                    // The effect has happened: only its answer is withheld.
                    let sealed = crate::walk::quarantine::sealed(&*key, &invocation.id, &output.value)?;
                    safe = withheld(&caught);
                    quarantine = Some(NewQuarantine { holds: Holds::Output, sealed, caught, lifetime_seconds: QUARANTINE_SECONDS });
                }
                invocation.result = Some(truncate(safe.clone(), RESULT_STORED_BYTES_MAX));
                invocation.status = status_after(failure.is_none(), &invocation.aftermath);
                invocation.failure = failure;
                // A run goes on from its steps' results, also after a crash.
                if matches!(invocation.principal, PrincipalId::Automation(_)) && invocation.result.as_ref() != Some(&safe) {
                    whole_result = Some(safe.to_string());
                }
                result = Some(safe);
            }
            Err(error) => {
                // A call that never reached the source returns its grant use, and costs nothing. A repair or a rollback follows an attempt that
                // did reach it.
                if error.was_not_taken_up() && invocation.purpose == Purpose::Effect {
                    charge(&mut invocation, |_| Amount::default());
                    if invocation.grant.is_some() {
                        grant_use = GrantUse::Returned;
                    }
                }
                invocation.status = status_after(false, &invocation.aftermath);
                // If its breaker is open, that was noted before.
                invocation.aftermath.retry_after_ms = error.retry_after_ms().or(invocation.aftermath.retry_after_ms);
                invocation.aftermath.may_be_made_again = may_be_made_again(&invocation, &definition.action, &error);
                invocation.result = self.reported(&invocation, &error).await;
                result.clone_from(&invocation.result);
                invocation.failure = Some(failure.unwrap_or_else(|| crate::walk::ask::failure_without_effect(&error)));
            }
        }
        let fate = key_fate(&invocation, outputs.is_some());
        let executed = invocation.intention != Intention::DryRun;
        let succeeded = invocation.status == Status::Succeeded;
        let ending = Ending {
            row,
            walking,
            policy_slice,
            approval,
            answered: None,
            idempotency,
            profile: definition.action.profile.as_str().to_owned(),
            requires: definition.action.requires.clone(),
            outputs,
            evidence,
            execution: match (executed, succeeded) {
                (false, _) => Execution::Never,
                (true, true) => Execution::Succeeded,
                (true, false) => Execution::Failed,
            },
            quality_thousandths,
            timeout_ms: definition.action.timeout_ms,
            key_fate: fate,
            grant_use,
            quarantine,
            whole_result,
            claimed,
            supersedes: None,
            rules_version: unbegun.as_ref().map(|unbegun| unbegun.rules_version),
            invocation,
        };
        let org = ending.invocation.org.clone();
        let recorded = self.record_by_rules(ending).await;
        // A result that is not given out takes with it what was made. Where nobody knows whether it was written, it stays.
        if matches!(recorded, Ok(Recorded::RulesChanged) | Err(Error::Conflict { .. })) {
            self.drop_artifacts(&kept).await;
        }
        let recorded = match recorded {
            Err(Error::Conflict { invocation, .. }) => return Box::pin(self.settled_elsewhere(org, invocation)).await,
            recorded => recorded?,
        };
        Ok(match (recorded, unbegun) {
            (Recorded::Ended(invocation), _) => Step::Done(Outcome::Ended { invocation, result }),
            // The result is not given out, because the rules changed. The call is decided again, and made again if it is still allowed.
            (Recorded::RulesChanged, Some(unbegun)) => Step::RulesChanged(unbegun),
            (Recorded::RulesChanged, None) => return Err(Error::RulesKeepChanging),
        })
    }

    /// Another server considered this one gone, claimed the call and settled it. The caller is told what it became.
    async fn settled_elsewhere(&self, org: OrgId, invocation: InvocationId) -> Result<Walked, Error> {
        let settled = Pace::soon().retry(is_away, || self.as_it_became(&org, &invocation)).await;
        if is_away(&settled) {
            return Err(Error::Unrecorded { invocation });
        }
        settled.map(|settled| Step::Done(Outcome::of(settled)))
    }
}

/// The final status. `reverted` needs a rollback that the source confirmed.
fn status_after(is_well: bool, aftermath: &Aftermath) -> Status {
    match aftermath.rollback {
        _ if is_well => Status::Succeeded,
        Some(Remedy { ok: true, .. }) => Status::Reverted,
        Some(Remedy { ok: false, .. }) | None => Status::Failed,
    }
}

/// Whether the idempotency key stays bound to this call. It is freed if no effect is left: the source guarantees that there was none, or
/// the effect was rolled back. It stays if an effect may have happened or still stands, so that the same key never repeats it.
const fn key_fate(invocation: &Invocation, has_output: bool) -> KeyFate {
    let is_answered = match invocation.status {
        Status::Succeeded => true,
        Status::Reverted => false,
        Status::Failed
        | Status::Pending
        | Status::Approved
        | Status::Running
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled
        | Status::InDoubt => has_output || invocation.aftermath.is_left_over(),
    };
    if is_answered { KeyFate::Answers } else { KeyFate::Freed }
}

/// Replaces an answer that was withheld.
pub(super) fn withheld(caught: &[Caught]) -> Value {
    let rules: Vec<_> = caught.iter().map(|caught| caught.rule.as_str()).collect();
    serde_json::json!({ "_withheld": true, "rules": rules })
}

fn claimed_digest(key: &dyn SpaceKey, invocation: &Invocation) -> Result<Option<Digest>, Error> {
    let Some(claimed) = &invocation.call.claimed else {
        return Ok(None);
    };
    let text = json::canonical(claimed).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(Some(key.digest("claimed", text.as_bytes())))
}

fn outputs_of(key: &dyn SpaceKey, value: &Value, withheld: bool) -> Outputs {
    // A source may answer with numbers that have no canonical form; its compact JSON text is still unambiguous.
    let text = json::canonical(value).unwrap_or_else(|_| value.to_string());
    Outputs { digest: key.digest("outputs", text.as_bytes()), bytes: text.len() as u64, withheld }
}
