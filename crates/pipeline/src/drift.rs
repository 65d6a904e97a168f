//! Whether an action is still what a person reviewed. Looked at with every call, not only when somebody lists.

use crate::admit::Admitted;
use crate::catalogue::Definition;
use crate::record::Ending;
use crate::{Error, Pipeline};
use countersign_core::action::{Class, Profile};
use countersign_core::decision::Drift;
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::ledger::{Finished, NewDrift, Pin, Row, Wording};
use countersign_core::{Action, ActionId, Digest, OrgId, Principal, Status, Tier};
use std::sync::Arc;

impl Pipeline {
    /// How the definition differs from the reviewed one. The first to see a difference notes it, which voids what waits for the
    /// action and its grants.
    pub(crate) async fn drift_of(&self, admitted: &mut Admitted, definition: &Definition) -> Result<Drift, Error> {
        let org = admitted.session.org.clone();
        let action = &definition.action.id;
        let Some(pin) = self.ledger().find_pin(&org, action).await? else {
            return Ok(Drift::None);
        };
        let drift = drift_from(&pin, definition.structural, definition.textual);
        let noted = NewDrift { action: action.clone(), drift, structural: definition.structural, textual: definition.textual };
        let is_known = pin.seen == Some((definition.structural, definition.textual));
        // What is known may have been noted by a server that stopped before it had ended all pending calls.
        if drift != Drift::None && self.note(&org, noted, is_known).await? {
            // Noting it is a change of the rules: what was read of them before is read again.
            admitted.rules_version = self.ledger().rules_version(&org).await?;
            admitted.space = self.space_of(&admitted.session).await?;
        }
        Ok(drift)
    }

    /// How an action differs from what was reviewed, only looked at.
    pub(crate) async fn drift_seen(&self, org: &OrgId, action: &Action) -> Result<Drift, Error> {
        let pin = self.ledger().find_pin(org, &action.id).await?;
        Ok(pin.map_or(Drift::None, |pin| drift_from(&pin, policy::digest::structural(action), policy::digest::textual(action))))
    }

    /// A person stands for the definition as it is now; what differs from it later is drift. `shown` is the digest they saw.
    pub async fn review(
        &self,
        principal: &Principal,
        action: &ActionId,
        shown: Option<Digest>,
        wording: Wording,
    ) -> Result<Reviewed, Error> {
        let definition = self.definition_now(&principal.org, action).await?;
        let Some(definition) = definition else {
            return Err(Error::UnknownAction { action: action.to_string() });
        };
        if shown.is_some_and(|shown| shown != definition.textual) {
            return Ok(Reviewed::OtherDefinition);
        }
        self.archive(&principal.org, &definition).await?;
        let pin = Pin { structural: definition.structural, textual: definition.textual, wording, seen: None };
        self.ledger().review(&principal.org, action, pin, &principal.id).await?;
        Ok(Reviewed::Done)
    }

    /// Keeps what an action is now for who lets it run without a person: what differs from it later is drift, though nobody has
    /// read it. A source that cannot be asked has nothing to keep.
    pub async fn keep_as_it_is(&self, principal: &Principal, action: &ActionId) -> Result<(), Error> {
        let Ok(Some(definition)) = self.definition_now(&principal.org, action).await else {
            return Ok(());
        };
        self.archive(&principal.org, &definition).await?;
        let pin = Pin { structural: definition.structural, textual: definition.textual, wording: Wording::Unread, seen: None };
        self.ledger().pin_first(&principal.org, action, pin, &principal.id).await?;
        Ok(())
    }

    /// What is odd about a definition that nobody has read as it is now.
    pub(crate) async fn unread_findings<'a>(&self, org: &OrgId, definition: &'a Definition) -> Result<&'a [policy::Finding], Error> {
        if definition.findings.is_empty() {
            return Ok(&[]);
        }
        let pin = self.ledger().find_pin(org, &definition.action.id).await?;
        let is_read =
            |pin: &Pin| pin.wording != Wording::Unread && (pin.structural, pin.textual) == (definition.structural, definition.textual);
        Ok(if pin.as_ref().is_some_and(is_read) { &[] } else { &definition.findings })
    }

    /// Digests and text of an action's definition as it is now; `None` when there is no such action.
    pub async fn definition_of(&self, org: &OrgId, action: &ActionId) -> Result<Option<DefinitionNow>, Error> {
        let definition = self.definition_now(org, action).await?;
        Ok(definition.map(|definition| DefinitionNow {
            structural: definition.structural,
            textual: definition.textual,
            text: policy::digest::textual_body(&definition.action),
            is_never_granted: definition.action.tier.class() == Class::Danger
                || (definition.action.tier >= Tier::R3 && definition.action.profile != Profile::InProcess),
        }))
    }

    async fn definition_now(&self, org: &OrgId, action: &ActionId) -> Result<Option<Arc<Definition>>, Error> {
        let found = self.inner.catalogue.find(org, action).await;
        let found = found.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        Ok(found.map(|(_, definition)| definition))
    }

    /// Notes a drift that is not known yet, and ends pending calls of other definitions, a bounded number at a time. Whether there was
    /// anything to do.
    async fn note(&self, org: &OrgId, drift: NewDrift, mut is_known: bool) -> Result<bool, Error> {
        if !is_known {
            tracing::warn!(action = %drift.action, drift = drift.drift.as_str(), "the definition is no longer the one that was reviewed");
        }
        let mut is_changed = false;
        loop {
            let mut pending = self.ledger().list_pending_of(org, &drift.action).await?;
            pending.retain(|waiting| (waiting.digests.structural, waiting.digests.textual) != (drift.structural, drift.textual));
            if is_known && pending.is_empty() {
                return Ok(is_changed);
            }
            let ends = pending.into_iter().map(|waiting| {
                let failure = Failure { code: "definition_mismatch".into(), message: drifted(&drift.action) };
                self.finish_of(Ending::unexecuted(waiting, Status::Denied, Some(DeniedBy::Drift), failure, Row::From(Status::Pending)))
            });
            let ends = ends.collect::<Result<Vec<_>, _>>()?;
            let ended = self.ledger().drift(org, drift.clone(), ends.clone()).await?;
            (is_known, is_changed) = (true, true);
            for (finish, ended) in ends.iter().zip(ended) {
                if matches!(ended, Finished::Recorded { .. }) {
                    self.count(&finish.invocation);
                    self.inner.waiters.wake(&finish.invocation.id);
                }
            }
        }
    }
}

/// Words alone matter unless whoever reviewed it said that they do not.
pub(crate) fn drift_from(pin: &Pin, structural: Digest, textual: Digest) -> Drift {
    if pin.structural != structural {
        Drift::Structural
    } else if pin.textual != textual && pin.wording != Wording::Ignored {
        Drift::Textual
    } else {
        Drift::None
    }
}

/// An action's definition as its source gives it now.
pub struct DefinitionNow {
    pub structural: Digest,
    pub textual: Digest,
    /// Canonical JSON.
    pub text: String,
    /// What destroys is approved one call at a time.
    pub is_never_granted: bool,
}

impl DefinitionNow {
    pub fn drift_from(&self, pin: &Pin) -> Drift {
        drift_from(pin, self.structural, self.textual)
    }
}

/// What became of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reviewed {
    Done,
    /// What was shown is not what the action is now.
    OtherDefinition,
}

fn drifted(action: &ActionId) -> String {
    format!("the definition of `{action}` changed while this waited; start anew after a review")
}
