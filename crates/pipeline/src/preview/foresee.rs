//! What is known of a held call before it runs: whether it could run at all, what it would change, and what made us ask. Nobody is asked
//! about what cannot run, and whoever is asked sees what they would let happen. Nothing here is performed, recorded or counted.

use crate::error::{Conflict, Error};
use crate::pipeline::Pipeline;
use crate::walk::ask::{Subject, failure_of};
use crate::walk::decide::Moded;
use crate::walk::ending::conflict_with;
use crate::walk::gate::{Gated, Gates, caught};
use crate::walk::hold::{is_redefined, void_by};
use crate::walk::possible::is_certain;
use crate::walk::truncate::is_truncated;
use countersign_core::action::{Class, Preview};
use countersign_core::changed_file::{ChangedFile, FileChange, changed_files};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::session::SessionLabel;
use countersign_core::source::AfterError;
use countersign_core::{ActionId, Invocation, Mode, OrgId, SessionId, Status};
use policy::Finding;
use policy::digest::Mismatch;
use policy::scan::Severity;
use serde_json::{Value, json};

/// What a person who is asked can know.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// Why it could not run now, whatever the answer.
    pub blocked: Option<Failure>,
    /// Its source says so; else the rules do, or what became of its action.
    pub is_blocked_by_source: bool,
    /// All of the params, redacted, where those of the invocation were too large to be kept whole: nobody says yes to what they cannot see.
    pub params: Option<Value>,
    /// What would change, as its source tells it; redacted.
    pub changes: Option<Value>,
    /// Why that is not known.
    pub unknown: Option<String>,
    /// Code of others was run, without effect, to know all this.
    pub ran_code: bool,
    /// What about its content made us ask.
    pub concerns: Vec<Finding>,
    /// What its session has come to hold, and by which call.
    pub labels: Vec<Held>,
}

/// What a session has come to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub label: SessionLabel,
    /// Of the call that brought it in.
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

fn failure_by(conflict: Conflict) -> Failure {
    Failure { code: conflict.code().into(), message: conflict.message().into() }
}

impl Pipeline {
    pub async fn foresee(&self, held: &Invocation) -> Result<Foresight, Error> {
        let gated = match self.gated_again(held).await? {
            Ok(gated) => gated,
            Err(blocked) => return Ok(Foresight::blocked(blocked)),
        };
        let moded = self.walk.mode_of(&gated).await?;
        let mut foresight = match blocked_by(held, &gated, &moded)? {
            // What is there by now is not what a yes would be to: it is not rehearsed.
            Some(conflict) => Foresight::blocked(failure_by(conflict)),
            None => self.look_ahead(&gated, &gated.to_invocation(Status::Pending, &moded.decision)).await?,
        };
        let findings = self.walk.findings_in(&gated.validated.resolved).await?;
        foresight.concerns = findings.into_iter().filter(|finding| finding.severity == Severity::Asks).collect();
        foresight.labels = self.held_by_session(&held.org, &held.session).await?;
        foresight.params = is_truncated(&held.call.params).then(|| gated.params_told());
        Ok(foresight)
    }

    /// Why an approval of this pending call would run nothing: what it covers has changed since the call was requested. `None` while the
    /// approval would still fit, also where something else is in the way for now, such as a kill switch.
    pub async fn void_reason(&self, held: &Invocation) -> Result<Option<Failure>, Error> {
        let blocked = match self.gated_again(held).await? {
            Ok(gated) => blocked_by(held, &gated, &self.walk.mode_of(&gated).await?)?.map(failure_by),
            Err(failure) => Some(failure),
        };
        Ok(blocked.filter(|why| Mismatch::ALL.iter().any(|mismatch| mismatch.code() == why.code)))
    }

    /// The pending calls whose approval would still fit; of one action, or all.
    pub async fn valid_pending(&self, org: &OrgId, action: Option<&ActionId>) -> Result<Vec<Invocation>, Error> {
        let mut valid = Vec::new();
        let mut after = None;
        loop {
            let page = self.ledger().list_in_status(org, Status::Pending, after.as_ref()).await?;
            let Some(last) = page.last().map(|last| last.id.clone()) else { return Ok(valid) };
            for pending in page {
                if action.is_none_or(|action| *action == pending.action) && !self.is_void(&pending).await? {
                    valid.push(pending);
                }
            }
            after = Some(last);
        }
    }

    /// How many of these are void by now.
    pub async fn count_void(&self, pending: &[Invocation]) -> Result<u64, Error> {
        let mut void = 0;
        for one in pending {
            void += u64::from(self.is_void(one).await?);
        }
        Ok(void)
    }

    async fn is_void(&self, pending: &Invocation) -> Result<bool, Error> {
        match self.void_reason(pending).await {
            Ok(reason) => Ok(reason.is_some()),
            // Answered meanwhile: it is no longer pending, so nothing about it can be void.
            Err(Error::Conflict { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// The params of a call that waits, redacted, where they were too large to be kept whole; `None` where they were not, and where the call
    /// could not run any more.
    pub async fn whole_params(&self, held: &Invocation) -> Result<Option<Value>, Error> {
        if !is_truncated(&held.call.params) {
            return Ok(None);
        }
        Ok(self.gated_again(held).await?.ok().map(|gated| gated.params_told()))
    }

    /// The call through the gates of now, or why it does not get there.
    async fn gated_again(&self, held: &Invocation) -> Result<Result<Gated, Failure>, Error> {
        if held.status != Status::Pending {
            return Err(Error::Conflict { invocation: held.id.clone(), conflict: conflict_with(held.status) });
        }
        let params = self.walk.open_params(held).await?;
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

    pub(crate) async fn look_ahead(&self, gated: &Gated, invocation: &Invocation) -> Result<Foresight, Error> {
        if let Some(failure) = self.walk.impossible(Subject::of(gated, invocation)).await {
            return Ok(Foresight::refused(failure));
        }
        // What is taken back is what was kept: there is nothing to rehearse.
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
        // Code nobody saw the end of has no meter, and was run all the same.
        let may_have_run = action.package_sha256.is_some() && asked.as_ref().is_err_and(|error| error.after() == AfterError::Unknown);
        let foresight = match asked {
            Ok(output) => match self.tellable(invocation, &output.value).await {
                Some(changes) => Foresight { changes: Some(changes), ..Foresight::default() },
                None => unknown("it holds what must not be shown".to_owned()),
            },
            Err(error) if is_certain(&error) => Foresight::refused(failure_of(&error)),
            Err(error) => unknown(failure_of(&error).message),
        };
        Ok(Foresight { ran_code: may_have_run || !invocation.meter.is_unused(), ..foresight })
    }

    /// The same of it that an answer would tell.
    async fn tellable(&self, invocation: &Invocation, value: &Value) -> Option<Value> {
        let (handed_on, unreadable) = self.walk.take_out_of_answer(&invocation.org, &invocation.space, value).await;
        let is_safe = caught(&policy::scan_output(value)).is_empty() && unreadable.is_empty();
        is_safe.then(|| policy::redact(&handed_on).value)
    }

    pub(crate) async fn held_by_session(&self, org: &OrgId, session: &SessionId) -> Result<Vec<Held>, Error> {
        let mut labels = Vec::new();
        for label in self.ledger().list_labels(org, session).await? {
            let by = self.ledger().find_invocation(org, &label.invocation).await?;
            labels.push(Held { label, action: by.map(|by| by.action) });
        }
        Ok(labels)
    }

    /// The same of a call that waits already. What its action is now is for `resume` to compare.
    pub(crate) async fn why_impossible(&self, held: &Invocation) -> Result<Option<Failure>, Error> {
        let found = match &held.reverses {
            None => self.walk.inner.catalogue.find(&held.org, &held.action).await.ok().flatten(),
            // What takes back is asked of whoever made the effect, also where that is gone.
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

    /// Why a call that waits would be refused by what it meets, as its card says: a yes is not spent on it. Code of others is not run to know,
    /// and a part of a batch meets what the parts before it leave.
    pub(crate) async fn refused_ahead(&self, held: &Invocation) -> Option<Failure> {
        let (_, definition) = self.walk.inner.catalogue.find(&held.org, &held.action).await.ok().flatten()?;
        if held.batch.is_some() || definition.action.package_sha256.is_some() {
            return None;
        }
        // Whoever answered meanwhile has ended it, and a store that is away says so itself: looking is in nobody's way.
        let seen = self.foresee(held).await.ok()?;
        seen.blocked.filter(|_| seen.is_blocked_by_source)
    }
}

/// What keeps a pending call from running now, whatever the answer: a kill switch, a denial, or something its approval is bound to and is no
/// longer so.
fn blocked_by(held: &Invocation, gated: &Gated, moded: &Moded) -> Result<Option<Conflict>, Error> {
    match (moded.stopped(), moded.decision.mode) {
        (Some(_), _) => Ok(Some(Conflict::Stopped)),
        (None, Mode::Deny) => Ok(Some(Conflict::PolicyMismatch)),
        (None, Mode::Allow | Mode::RequireApproval) => void_by(held, gated, moded),
    }
}

/// The files that would be as they were again, in the words of a preview; `None` where it is not about files.
fn put_back(evidence: &Value) -> Option<Value> {
    let change = |file: ChangedFile| {
        let change = match file.change.undone() {
            FileChange::Created => "would_create",
            FileChange::Changed => "would_change",
            FileChange::Removed => "would_delete",
        };
        json!({ "path": policy::redact_text(&file.path), "change": change })
    };
    let changes: Vec<_> = changed_files(evidence).into_iter().map(change).collect();
    (!changes.is_empty()).then(|| json!({ "changes": changes }))
}

/// Why a call that waits is no longer one that could be asked for. Whoever says yes to it is told that its action has changed, and so is
/// whoever looks at it; in what is said besides.
fn unresolved(error: &Error) -> Option<Failure> {
    let failure = error.to_failure()?;
    if !is_redefined(error) {
        return Some(failure);
    }
    let message = format!("{}: {}", Conflict::DefinitionMismatch.message(), failure.message);
    Some(Failure { code: Conflict::DefinitionMismatch.code().into(), message })
}
