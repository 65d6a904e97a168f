//! Which pending calls are void: what their approval covers has changed since they were requested. Lists ask this of many calls at once, so the
//! params of a call are opened only if something has changed that its decision rests on, and once for each such change.

use super::foresee::failure_by;
use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::walk::binding::bound_to;
use crate::walk::voids::Grounds;
use countersign_core::decision::Drift;
use countersign_core::invocation::Failure;
use countersign_core::session::SessionLabel;
use countersign_core::{Invocation, Mode, Status};
use policy::digest::Mismatch;
use serde_json::Value;

impl Pipeline {
    /// Why an approval of this pending call would run nothing: what it covers has changed since the call was requested. `None` while the
    /// approval would still fit, also where something else is in the way for now, such as a kill switch.
    pub async fn void_reason(&self, held: &Invocation) -> Result<Option<Failure>, Error> {
        if held.status != Status::Pending {
            return self.found_void(held).await;
        }
        let grounds = self.grounds_of(held).await?;
        if grounds.as_ref().is_some_and(|grounds| was_held_on(held, grounds)) {
            return Ok(None);
        }
        let known = || grounds.as_ref().and_then(|grounds| self.walk.inner.voids.find(&held.id, grounds));
        if let Some(known) = known() {
            return Ok(known);
        }
        // Of several readers one opens it, and the others wait for what it finds.
        let _turn = self.walk.inner.voids.turn(&held.id).await;
        if let Some(known) = known() {
            return Ok(known);
        }
        let void = self.found_void(held).await?;
        if let Some(grounds) = grounds {
            self.walk.inner.voids.keep(held.id.clone(), grounds, void.clone());
        }
        Ok(void)
    }

    /// Decides the call once more, with its params.
    async fn found_void(&self, held: &Invocation) -> Result<Option<Failure>, Error> {
        let blocked = match self.gated_again(held).await? {
            Ok(gated) => {
                let moded = self.walk.mode_of(&gated).await?;
                let blocked = self.blocked_by(held, &gated, &moded).await?.map(failure_by);
                let denied = "the rules for this action have changed since the call was requested, and deny it now";
                match moded.decision.mode {
                    Mode::Deny => blocked.map(|why| Failure { message: denied.to_owned(), ..why }),
                    Mode::Allow | Mode::RequireApproval => blocked,
                }
            }
            Err(failure) => Some(failure),
        };
        Ok(blocked.filter(|why| Mismatch::ALL.iter().any(|mismatch| mismatch.code() == why.code)))
    }

    /// What the decision about a pending call rests on now; `None` if it could not be decided at all.
    async fn grounds_of(&self, held: &Invocation) -> Result<Option<Grounds>, Error> {
        let Some(admitted) = self.walk.admit_held(held, Value::Null).await? else { return Ok(None) };
        let rules_version = admitted.rules_version;
        let Ok(resolved) = self.walk.resolve_readonly(admitted).await else { return Ok(None) };
        let since = |label: &&SessionLabel| label.at >= held.created_at;
        let labels = self.ledger().list_labels(&held.org, &held.session).await?.iter().filter(since).count();
        // A policy may go by the time, and so does whether an effect can still be reverted.
        let goes_by_time = held.policies.is_some() || held.reverses.is_some();
        Ok(Some(Grounds {
            rules_version,
            definition: (resolved.definition.structural, resolved.definition.textual),
            drift: resolved.drift,
            sent_as: self.walk.sent_as(&resolved).await?,
            labels,
            minute: goes_by_time.then(|| self.walk.now().as_micros() / 60_000_000),
        }))
    }
}

/// Whether these are the grounds that the call was held on.
fn was_held_on(held: &Invocation, grounds: &Grounds) -> bool {
    let Ok(bound) = bound_to(held) else { return false };
    held.decision.rules_version == Some(grounds.rules_version)
        && grounds.definition == (held.digests.structural, held.digests.textual)
        && grounds.drift == Drift::None
        && grounds.sent_as == (bound.connection, bound.connection_version)
        && (grounds.labels, grounds.minute) == (0, None)
}
