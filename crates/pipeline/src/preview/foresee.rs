//! What is known about a pending call before it runs: whether it could run at all, what it would change, and why a person is asked. So
//! nobody is asked about a call that cannot run, and an approver sees what they would permit. This file performs, records and counts
//! nothing.

use crate::error::{Conflict, Error};
use crate::pipeline::Pipeline;
use crate::walk::ask::{Subject, failure_of, failure_without_effect};
use crate::walk::decide::Moded;
use crate::walk::ending::conflict_of_ended;
use crate::walk::gate::{Gated, Gates, caught};
use crate::walk::hold::{approvals_needed, redefined};
use crate::walk::possible::is_certain;
use crate::walk::truncate::{is_truncated, truncate};
use crate::walk::weight::Weight;
use countersign_core::action::{Class, Preview};
use countersign_core::changed_file::{ChangedFile, FileChange, changed_files, warn};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::limits::PARAMS_STORED_BYTES_MAX;
use countersign_core::session::SessionLabel;
use countersign_core::source::AfterError;
use countersign_core::{ActionId, Invocation, Mode, OrgId, SessionId, SpaceId, Status};
use policy::Finding;
use policy::scan::Severity;
use serde_json::{Value, json};

/// What an approver can know about a pending call.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// Why the call could not run now, whatever the answer.
    pub blocked: Option<Failure>,
    /// The source blocks the call. If false, the rules or a change of its action do.
    pub is_blocked_by_source: bool,
    /// All params, redacted, if the stored ones were truncated: an approver must be able to see everything they approve.
    pub params: Option<Value>,
    /// What would change, as the source reports it; redacted.
    pub changes: Option<Value>,
    /// Why the changes are not known.
    pub unknown: Option<String>,
    /// Package code was run, without effect, to find this out.
    pub ran_code: bool,
    /// The findings in its content that make an approval necessary.
    pub concerns: Vec<Finding>,
    /// The labels of its session, and the calls that set them.
    pub labels: Vec<Held>,
    /// How many people must approve, by the rules in force now.
    pub approvals_needed: Option<u32>,
}

/// A label of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub label: SessionLabel,
    /// The action of the call that set it, if one did.
    pub action: Option<ActionId>,
}

impl Foresight {
    fn blocked(failure: Failure) -> Self {
        Self { blocked: Some(failure), ..Self::default() }
    }

    fn refused(failure: Failure) -> Self {
        Self { is_blocked_by_source: true, ..Self::blocked(failure) }
    }
}

pub(super) fn failure_by(conflict: Conflict) -> Failure {
    Failure { code: conflict.code().into(), message: conflict.message().into() }
}

impl Pipeline {
    pub async fn foresee(&self, held: &Invocation) -> Result<Foresight, Error> {
        let gated = match self.gated_again(held).await? {
            Ok(gated) => gated,
            Err(blocked) => return Ok(Foresight::blocked(blocked)),
        };
        let moded = self.walk.mode_of(&gated).await?;
        let mut foresight = match self.blocked_by(held, &gated, &moded).await? {
            // An approval would not cover the action as it is now, so its changes are not previewed.
            Some(conflict) => Foresight::blocked(failure_by(conflict)),
            None => self.look_ahead(&gated, &gated.to_invocation(Status::Pending, &moded.decision)).await?,
        };
        let findings = self.walk.findings_in(&gated.validated.resolved).await?;
        foresight.concerns = findings.into_iter().filter(|finding| finding.severity == Severity::Asks).collect();
        foresight.labels = self.held_by_session(&held.org, &held.session).await?;
        foresight.params = is_truncated(&held.call.params).then(|| gated.params_told());
        let space = self.ledger().find_space(&held.org, &held.space).await?;
        foresight.approvals_needed = space.map(|space| approvals_needed(&space, held.tier, held.edit.is_some()));
        Ok(foresight)
    }

    /// The pending call after the gates as they are now, or why it does not pass them.
    pub(super) async fn gated_again(&self, held: &Invocation) -> Result<Result<Gated, Failure>, Error> {
        if held.status != Status::Pending {
            return Err(Error::Conflict { invocation: held.id.clone(), conflict: conflict_of_ended(held) });
        }
        let params = match self.walk.open_params(held).await {
            Ok(params) => params,
            // The params go with the end of a call, and this one may have ended since it was read.
            Err(error) => return Err(self.ended_meanwhile(held).await?.unwrap_or(error)),
        };
        let (pipeline, held, weight) = (self.clone(), held.clone(), Weight::of(&params));
        weight.run(Box::pin(async move { pipeline.gated_with(&held, params).await })).await
    }

    async fn gated_with(&self, held: &Invocation, params: Value) -> Result<Result<Gated, Failure>, Error> {
        let Some(admitted) = self.walk.admit_held(held, params).await? else {
            return Ok(Err(failure_by(Conflict::TupleMismatch)));
        };
        let validated = match self.walk.resolve_readonly(admitted).await {
            Ok(resolved) => self.walk.validate(resolved).await,
            Err(error) => Err(error),
        };
        let validated = match validated {
            Ok(validated) => validated,
            Err(error) => return unresolved(&error).map(Err).ok_or(error),
        };
        Ok(match self.walk.gate_readonly(validated).await? {
            Gates::Passed(gated) => Ok(gated),
            Gates::Denied(..) | Gates::Quarantined(..) => Err(failure_by(Conflict::PolicyMismatch)),
        })
    }

    /// The conflict with what became of a pending call since it was read; `None` if it is pending still.
    async fn ended_meanwhile(&self, held: &Invocation) -> Result<Option<Error>, Error> {
        let now = self.ledger().find_invocation(&held.org, &held.id).await?;
        let ended = now.filter(|now| now.status != Status::Pending);
        Ok(ended.map(|now| Error::Conflict { conflict: conflict_of_ended(&now), invocation: now.id }))
    }

    pub(crate) async fn look_ahead(&self, gated: &Gated, invocation: &Invocation) -> Result<Foresight, Error> {
        if let Some(failure) = self.walk.impossible(Subject::of(gated, invocation)).await {
            return Ok(Foresight::refused(failure));
        }
        // A revert restores the stored evidence, so there is nothing to preview.
        if invocation.intention == Intention::Revert {
            let changes = self.walk.kept_by_reversed(invocation).await?.and_then(|evidence| put_back(&evidence));
            return Ok(Foresight { changes, ..Foresight::default() });
        }
        let unknown = |why: String| Foresight { unknown: Some(why), ..Foresight::default() };
        let action = gated.validated.resolved.action();
        match (action.preview, action.tier.class()) {
            (Preview::Supported, _) => {}
            (Preview::Unsupported, Class::Read) => {
                return Ok(Foresight { changes: Some(json!({ "changes": [] })), ..Foresight::default() });
            }
            (Preview::Unsupported, Class::Write | Class::Danger) => {
                return Ok(unknown("this action cannot tell in advance".to_owned()));
            }
        }
        if let Some(failure) = self.walk.reads_too_much(gated).await? {
            return Ok(unknown(failure.message));
        }
        let asked = self.walk.ask_for_preview(gated, invocation).await;
        // Package code whose end was not seen has left no meter reading, but it may have run.
        let may_have_run = action.package_sha256.is_some() && asked.as_ref().is_err_and(|error| error.after() == AfterError::Unknown);
        let foresight = match asked {
            Ok(output) => match self.tellable(invocation, &output.value).await {
                Some(changes) => Foresight { changes: Some(changes), ..Foresight::default() },
                None => unknown("it holds what must not be shown".to_owned()),
            },
            Err(error) if is_certain(&error) => Foresight::refused(failure_of(&error)),
            Err(error) => unknown(failure_without_effect(&error).message),
        };
        Ok(Foresight { ran_code: may_have_run || !invocation.meter.is_unused(), ..foresight })
    }

    /// Params that no call has yet, as those of a call are shown: without what the space takes out, without secrets, and pruned when large.
    pub async fn tell_params(&self, org: &OrgId, space: &SpaceId, params: &Value) -> Value {
        let (handed_on, unreadable) = self.walk.take_out_of_answer(org, space, params).await;
        let told = if unreadable.is_empty() { policy::redact(&handed_on).value } else { json!({ "_unreadable": true }) };
        truncate(told, PARAMS_STORED_BYTES_MAX)
    }

    /// The preview as far as an answer of the source would be shown; `None` if it must not be shown.
    async fn tellable(&self, invocation: &Invocation, value: &Value) -> Option<Value> {
        let (handed_on, unreadable) = self.walk.take_out_of_answer(&invocation.org, &invocation.space, value).await;
        let is_safe = caught(&policy::scan_output(value)).is_empty() && unreadable.is_empty();
        is_safe.then(|| policy::redact(&handed_on).value)
    }

    pub(crate) async fn held_by_session(&self, org: &OrgId, session: &SessionId) -> Result<Vec<Held>, Error> {
        let mut labels = Vec::new();
        for label in self.ledger().list_labels(org, session).await? {
            let by = match &label.invocation {
                Some(by) => self.ledger().find_invocation(org, by).await?,
                None => None,
            };
            labels.push(Held { label, action: by.map(|by| by.action) });
        }
        Ok(labels)
    }

    /// Why a pending call could not be performed. Whether its action has changed is not compared here; `resume` does that.
    pub(crate) async fn why_impossible(&self, held: &Invocation) -> Result<Option<Failure>, Error> {
        let found = match &held.reverses {
            None => self.walk.inner.catalogue.find(&held.org, &held.action).await.ok().flatten(),
            // A revert is asked of the source that made the effect, even if that source is gone from the catalogue.
            Some(reversed) => match self.ledger().find_invocation(&held.org, reversed).await? {
                Some(reversed) => self.walk.source_then(&reversed).await,
                None => None,
            },
        };
        let Some((source, definition)) = found else {
            return Ok(None);
        };
        Ok(self.walk.impossible(Subject { source: &*source, definition: &definition, params: &Value::Null, invocation: held }).await)
    }

    /// Why the source would refuse a pending call, as its card in the inbox shows it, so that no approval is used on it. Package code is
    /// not run for this. A part of a batch is left out, since earlier parts may change the state it meets.
    pub(crate) async fn refused_ahead(&self, held: &Invocation) -> Option<Failure> {
        let (_, definition) = self.walk.inner.catalogue.find(&held.org, &held.action).await.ok().flatten()?;
        if held.batch.is_some() || definition.action.package_sha256.is_some() {
            return None;
        }
        // Errors are ignored: a call that was answered meanwhile, or an unavailable store, is reported by the approval itself.
        let seen = self.foresee(held).await.ok()?;
        seen.blocked.filter(|_| seen.is_blocked_by_source)
    }

    /// What keeps a pending call from running now, whatever the answer: a kill switch, a denial, or a part of its binding that no longer
    /// holds.
    pub(super) async fn blocked_by(&self, held: &Invocation, gated: &Gated, moded: &Moded) -> Result<Option<Conflict>, Error> {
        match (moded.stopped(), moded.decision.mode) {
            (Some(_), _) => Ok(Some(Conflict::Stopped)),
            (None, Mode::Deny) => Ok(Some(Conflict::PolicyMismatch)),
            (None, Mode::Allow | Mode::RequireApproval) => self.walk.void_by(held, gated, moded).await,
        }
    }
}

/// The files that a revert would restore, in the format of a preview; `None` if the evidence names no files.
fn put_back(evidence: &Value) -> Option<Value> {
    let change = |file: ChangedFile| {
        let change = match file.change.reverted() {
            FileChange::Created => "would_create",
            FileChange::Changed => "would_change",
            FileChange::Removed => "would_delete",
        };
        let mut told = json!({ "path": policy::redact_text(&file.path), "change": change });
        if change != "would_delete" {
            warn(&mut told, &file.path, file.mode);
        }
        told
    };
    let changes: Vec<_> = changed_files(evidence).into_iter().map(change).collect();
    (!changes.is_empty()).then(|| json!({ "changes": changes }))
}

/// Why a pending call is no longer valid, if it is not. An invalid call is reported as a changed definition, both to an approver and to a
/// reader; the original message is added.
fn unresolved(error: &Error) -> Option<Failure> {
    let failure = error.to_failure()?;
    let Some(conflict) = redefined(error) else {
        return Some(failure);
    };
    let message = format!("{}: {}", conflict.message(), failure.message);
    Some(Failure { code: conflict.code().into(), message })
}
