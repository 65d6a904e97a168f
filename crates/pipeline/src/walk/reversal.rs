//! Reverting the effect of an earlier invocation: what was kept of it, and whether there is a way back.

use super::admit::Admitted;
use super::ground::Walk;
use crate::catalogue::Definition;
use crate::error::Error;
use countersign_core::action::Reversibility;
use countersign_core::invocation::Intention;
use countersign_core::source::Source;
use countersign_core::{ActionId, Invocation, Status, Timestamp};
use serde_json::Value;
use std::sync::Arc;

impl Walk {
    /// The source and the definition an effect was made under, where they are still known.
    pub(crate) async fn source_then(&self, of: &Invocation) -> Option<(Arc<dyn Source>, Arc<Definition>)> {
        let now = self.inner.catalogue.find(&of.org, &of.action).await.ok().flatten();
        match now.filter(|(_, definition)| is_of(definition, of)) {
            Some(unchanged) => Some(unchanged),
            None => self.inner.catalogue.find_past(of).await,
        }
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
}

/// Why an effect cannot be taken back any more, under this definition; `None` where it can.
pub(crate) fn why_no_way_back(reversed: &Invocation, definition: &Definition, now: Timestamp) -> Option<&'static str> {
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

pub(crate) fn has_effect(reversed: &Invocation) -> bool {
    reversed.status == Status::Succeeded && reversed.intention == Intention::Effect
}

/// Whether this is what it was decided about.
pub(crate) fn is_of(definition: &Definition, invocation: &Invocation) -> bool {
    (definition.structural, definition.textual) == (invocation.digests.structural, invocation.digests.textual)
}
