//! Taking back the effect of an earlier invocation, on demand: a call of its own, with its own gates, decision and receipt.

use crate::admit::Admitted;
use crate::catalogue::Definition;
use crate::resolve::Resolved;
use crate::{Error, Explanation, Foresight, Outcome, Pipeline, Request};
use countersign_core::action::Reversibility;
use countersign_core::effect::Scope;
use countersign_core::invocation::{Intention, revert_key};
use countersign_core::source::Source;
use countersign_core::{ActionId, Invocation, InvocationId, Principal, Status, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What taking an effect back would come to.
#[derive(Clone, Debug)]
pub struct RevertForesight {
    /// Whether it would run, or whom it would ask.
    pub explanation: Explanation,
    /// What would be as it was again, or why it could not be.
    pub foresight: Foresight,
}

impl Pipeline {
    pub async fn revert(
        &self,
        principal: &Principal,
        id: &InvocationId,
        reason: Option<String>,
        trace_id: String,
    ) -> Result<Outcome, Error> {
        let reversed = self.reversed(principal, id).await?;
        self.invoke(undoing(principal, &reversed, reason, trace_id)).await
    }

    /// What taking it back would come to, asked without a trace. What could not even be asked for is refused as the taking back would be.
    pub async fn foresee_revert(&self, principal: &Principal, id: &InvocationId) -> Result<RevertForesight, Error> {
        let reversed = self.reversed(principal, id).await?;
        let request = undoing(principal, &reversed, None, String::new());
        let session = self.session_for(principal, &request.session, request.intention).await?;
        let resolved = self.resolve_unseen(self.admit_unseen(session, request).await?).await?;
        self.check_revertible(&resolved).await?;
        let (explanation, gated) = self.judge(resolved).await?;
        let mut foresight = self.look_ahead(&gated, &gated.to_invocation(Status::Pending, &explanation.decision)).await?;
        if foresight.blocked.is_none() && foresight.changes.is_none() {
            foresight.unknown =
                Some("nothing that was kept names a file, and what else would be taken back only its source knows".to_owned());
        }
        Ok(RevertForesight { explanation, foresight })
    }

    /// Those of these that have a way back, by what was kept of them. Whether they were taken back already is not looked at.
    pub async fn with_a_way_back(&self, invocations: Vec<Invocation>) -> Result<Vec<Invocation>, Error> {
        let now = self.ledger().now().await?;
        let mut found = Vec::with_capacity(invocations.len());
        for invocation in invocations {
            let then = match has_effect(&invocation) {
                true => self.source_then(&invocation).await,
                false => None,
            };
            if then.is_some_and(|(_, definition)| why_no_way_back(&invocation, &definition, now).is_none()) {
                found.push(invocation);
            }
        }
        Ok(found)
    }

    /// The source and the definition an effect was made under, where they are still known.
    pub(crate) async fn source_then(&self, of: &Invocation) -> Option<(Arc<dyn Source>, Arc<Definition>)> {
        let now = self.inner.catalogue.find(&of.org, &of.action).await.ok().flatten();
        match now.filter(|(_, definition)| is_of(definition, of)) {
            Some(unchanged) => Some(unchanged),
            None => self.inner.catalogue.find_past(of).await,
        }
    }

    async fn reversed(&self, principal: &Principal, id: &InvocationId) -> Result<Invocation, Error> {
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)
    }

    /// What was kept before the effect that this call takes back.
    pub(crate) async fn kept_by_reversed(&self, invocation: &Invocation) -> Result<Option<Value>, Error> {
        let Some(reversed) = &invocation.reverses else {
            return Ok(None);
        };
        Ok(self.ledger().find_invocation(&invocation.org, reversed).await?.and_then(|reversed| reversed.evidence))
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
        if now.is_some_and(|now| is_of(now, &reversed)) {
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
        match why_no_way_back(&reversed, &resolved.definition, now) {
            Some(why) => Err(Error::NotRevertible { invocation: id.clone(), why }),
            None => Ok(()),
        }
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

/// Why an effect cannot be taken back any more, under this definition; `None` where it can.
fn why_no_way_back(reversed: &Invocation, definition: &Definition, now: Timestamp) -> Option<&'static str> {
    let action = &definition.action;
    let until = action.reversible_seconds.and_then(|seconds| Some(reversed.ended_at?.plus_seconds(seconds)));
    if !has_effect(reversed) {
        Some("it has no effect that stands")
    } else if action.reversibility != Reversibility::Reversible || reversed.evidence.is_none() {
        Some("nothing was kept to do so with")
    } else if until.is_some_and(|until| until <= now) {
        Some("its time has passed")
    } else if !is_of(definition, reversed) {
        Some("the action is defined otherwise now")
    } else {
        None
    }
}

fn has_effect(reversed: &Invocation) -> bool {
    reversed.status == Status::Succeeded && reversed.intention == Intention::Effect
}

/// Whether this is what it was decided about.
fn is_of(definition: &Definition, invocation: &Invocation) -> bool {
    (definition.structural, definition.textual) == (invocation.digests.structural, invocation.digests.textual)
}
