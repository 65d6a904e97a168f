//! Taking back the effect of an earlier invocation, on demand: a call of its own, with its own gates, decision and receipt.

use crate::admit::Admitted;
use crate::catalogue::Definition;
use crate::resolve::Resolved;
use crate::{Error, Outcome, Pipeline, Request};
use countersign_core::action::Reversibility;
use countersign_core::effect::Scope;
use countersign_core::invocation::{Intention, revert_key};
use countersign_core::source::Source;
use countersign_core::{ActionId, Invocation, InvocationId, Principal, Status};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Pipeline {
    pub async fn revert(
        &self,
        principal: &Principal,
        id: &InvocationId,
        reason: Option<String>,
        trace_id: String,
    ) -> Result<Outcome, Error> {
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let reversed = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        self.invoke(undoing(principal, &reversed, reason, trace_id)).await
    }

    /// What the action was when the effect was made, where a call takes back the effect of what is defined otherwise by now, or is gone.
    /// `None` where that is not so, or nothing of it was kept.
    pub(crate) async fn past_of_reversed(
        &self,
        admitted: &Admitted,
        action: &ActionId,
        now: Option<&Definition>,
    ) -> Result<Option<(Arc<dyn Source>, Arc<Definition>)>, Error> {
        let Some(id) = &admitted.request.reverses else {
            return Ok(None);
        };
        let reversed = self.ledger().find_invocation(&admitted.session.org, id).await?;
        let Some(reversed) = reversed.filter(|reversed| reversed.action == *action) else {
            return Ok(None);
        };
        let then = (reversed.digests.structural, reversed.digests.textual);
        if now.is_some_and(|now| (now.structural, now.textual) == then) {
            return Ok(None);
        }
        Ok(self.inner.catalogue.find_past(&reversed).await)
    }

    /// Whether there is an effect, and a way back from it.
    pub(crate) async fn check_revertible(&self, resolved: &Resolved) -> Result<(), Error> {
        let Some(id) = &resolved.admitted.request.reverses else {
            return Ok(());
        };
        let session = &resolved.admitted.session;
        let reversed = self.ledger().find_invocation(&session.org, id).await?;
        let reversed = reversed.filter(|reversed| reversed.session == session.id);
        let reversed = reversed.ok_or_else(|| Error::UnknownInvocation { invocation: id.to_string() })?;
        self.check_not_reverted(resolved, &reversed).await?;
        let now = self.ledger().now().await?;
        let until = until(resolved, &reversed);
        let why = if reversed.status != Status::Succeeded || reversed.intention != Intention::Effect {
            "it has no effect that stands"
        } else if resolved.action().reversibility != Reversibility::Reversible || reversed.evidence.is_none() {
            "nothing was kept to do so with"
        } else if until.is_some_and(|until| until <= now) {
            "its time has passed"
        } else if (resolved.definition.structural, resolved.definition.textual) != (reversed.digests.structural, reversed.digests.textual) {
            "the action is defined otherwise now"
        } else {
            return Ok(());
        };
        Err(Error::NotRevertible { invocation: id.clone(), why })
    }

    /// An effect is taken back once. A batch that was interrupted while it took its parts back asks again, and is answered as before.
    async fn check_not_reverted(&self, resolved: &Resolved, reversed: &Invocation) -> Result<(), Error> {
        if resolved.admitted.undoing.is_some() {
            return Ok(());
        }
        let Invocation { org, space, action, id, .. } = reversed;
        let Some(reservation) = self.ledger().find_reservation(org, space, action, &revert_key(id)).await? else {
            return Ok(());
        };
        match self.ledger().find_invocation(org, &reservation.invocation).await? {
            Some(revert) if revert.status == Status::Succeeded => Err(Error::AlreadyReverted { invocation: id.clone(), by: revert.id }),
            Some(_) | None => Ok(()),
        }
    }
}

/// The call that takes an effect back.
pub(crate) fn undoing(principal: &Principal, reversed: &Invocation, reason: Option<String>, trace_id: String) -> Request {
    Request {
        principal: principal.clone(),
        session: reversed.session.clone(),
        action: reversed.action.to_string(),
        params: json!({ "reverses": reversed.id }),
        idempotency_key: Some(revert_key(&reversed.id)),
        approval_ref: None,
        intention: Intention::Revert,
        reverses: Some(reversed.id.clone()),
        scope: Scope::default(),
        bounds: reversed.bounds.clone(),
        commands: Vec::new(),
        reason,
        claimed: None,
        provenance: BTreeMap::new(),
        trace_id,
    }
}

fn until(resolved: &Resolved, reversed: &Invocation) -> Option<countersign_core::Timestamp> {
    let seconds = resolved.action().reversible_seconds?;
    reversed.ended_at.map(|ended| ended.plus_seconds(seconds))
}
