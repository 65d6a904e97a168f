//! Reverting the effect of an earlier invocation: finds its rollback evidence and its definition, and says whether it can be reverted.

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
    /// The source and the definition that an effect was made under, if they are still known.
    pub(crate) async fn source_then(&self, of: &Invocation) -> Option<(Arc<dyn Source>, Arc<Definition>)> {
        let now = self.inner.catalogue.find(&of.org, &of.action).await.ok().flatten();
        match now.filter(|(_, definition)| is_of(definition, of)) {
            Some(unchanged) => Some(unchanged),
            None => self.inner.catalogue.find_past(of).await,
        }
    }

    /// The evidence that was stored before the effect that this call reverts.
    pub(crate) async fn kept_by_reversed(&self, invocation: &Invocation) -> Result<Option<Value>, Error> {
        let Some(reversed) = &invocation.reverses else {
            return Ok(None);
        };
        Ok(self.ledger().find_invocation(&invocation.org, reversed).await?.and_then(|reversed| reversed.evidence))
    }

    /// The source and definition at the time of the effect, if this call reverts an effect whose action has changed or gone since.
    /// `None` if the action has not changed, or if its old definition was not kept.
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

/// Why an effect can no longer be reverted under this definition; `None` if it can.
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

/// Whether the invocation was decided under this definition.
pub(crate) fn is_of(definition: &Definition, invocation: &Invocation) -> bool {
    (definition.structural, definition.textual) == (invocation.digests.structural, invocation.digests.textual)
}
