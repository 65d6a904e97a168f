//! Whether a call could be performed at all. This is checked before a person is asked, so that nobody decides about a call that cannot run.

use super::ask::{Subject, failure_of};
use super::decide::Decided;
use super::gate::Gated;
use super::ground::Walk;
use countersign_core::invocation::{Failure, Intention};
use countersign_core::source::{self, Asked};
use countersign_core::{Decision, Status};

impl Walk {
    /// Denies a call that could not be performed whatever a person answers. This comes before a person is asked, before the intent and
    /// before a grant is used, so the same call ends the same way whether or not it needs an approval.
    pub(crate) async fn unless_impossible(&self, decided: Decided) -> Decided {
        let (gated, decision) = match &decided {
            // A batch reverts its parts as far as possible, so its reverts are not stopped here.
            Decided::Cleared(cleared) if cleared.is_by_batch() => return decided,
            Decided::Cleared(cleared) => (cleared.gated(), cleared.decision()),
            Decided::Pending(pending) => (&pending.gated, &pending.decision),
            Decided::Preview(preview) => (&preview.gated, &preview.decision),
            Decided::Denied(_) => return decided,
        };
        match self.would_be_impossible(gated, decision).await {
            None => decided,
            Some(failure) => decided.refused(failure),
        }
    }

    /// Why a call that has only been decided could not be performed.
    pub(crate) async fn would_be_impossible(&self, gated: &Gated, decision: &Decision) -> Option<Failure> {
        let resolved = &gated.validated.resolved;
        let request = &resolved.admitted.request;
        if request.intention == Intention::Revert {
            let invocation = gated.to_invocation(Status::Pending, decision);
            return Box::pin(self.impossible(Subject::of(gated, &invocation))).await;
        }
        let action = resolved.action();
        let asked =
            Asked { action: &action.id, params: Some(&request.call.params), scope: &request.call.scope, code: action.package_sha256 };
        certainly(self.ask_whether_possible(&*resolved.source, asked).await)
    }

    pub(crate) async fn impossible(&self, subject: Subject<'_>) -> Option<Failure> {
        let asked = match subject.invocation.intention {
            Intention::Effect | Intention::DryRun => self.ask_whether_possible(subject.source, subject.asked()).await,
            // A revert restores the stored evidence, whatever became of the source. Only a state that it would overwrite can prevent it.
            Intention::Revert => {
                let evidence = self.kept_by_reversed(subject.invocation).await.ok()??;
                self.ask_whether_revertible(subject, &evidence).await
            }
        };
        certainly(asked)
    }
}

/// The reason why not, if asking again would give the same answer.
fn certainly(answer: Result<(), source::Error>) -> Option<Failure> {
    let refusal = answer.err()?;
    is_certain(&refusal).then(|| failure_of(&refusal))
}

/// Whether asking again would give the same answer.
pub(crate) const fn is_certain(error: &source::Error) -> bool {
    match error {
        source::Error::Refused { .. } | source::Error::Failed { .. } | source::Error::WorkspaceElsewhere => true,
        source::Error::Unreachable { .. }
        | source::Error::Busy { .. }
        | source::Error::NoTurn { .. }
        | source::Error::TimedOut { .. }
        | source::Error::Broken { .. }
        | source::Error::Reported { .. }
        | source::Error::PreviewUnsupported { .. } => false,
    }
}
