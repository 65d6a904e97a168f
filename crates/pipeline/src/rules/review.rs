//! A person's review of an action's definition. A later difference from the reviewed definition is drift.

use crate::catalogue::{Definition, Eyes};
use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::walk::drift::drift_from;
use countersign_core::decision::Drift;
use countersign_core::ledger::{Pin, Wording};
use countersign_core::source::Source;
use countersign_core::{Action, ActionId, Digest, OrgId, Principal, PrincipalId};
use std::sync::Arc;

impl Pipeline {
    /// Marks the current definition as reviewed; a later difference is drift. `shown` is the digest that the person saw.
    pub async fn review(
        &self,
        principal: &Principal,
        action: &ActionId,
        shown: Option<Digest>,
        wording: Wording,
    ) -> Result<Reviewed, Error> {
        let definition = self.definition_now(&principal.org, action).await?;
        let Some((_, definition)) = definition else {
            return Err(self.walk.unknown_action(&principal.org, action.as_str()).await);
        };
        if shown.is_some_and(|shown| shown != definition.textual) {
            return Ok(Reviewed::OtherDefinition);
        }
        self.walk.archive(&principal.org, &definition).await?;
        let pin = Pin { structural: definition.structural, textual: definition.textual, wording, seen: None, changed_at: None };
        self.ledger().review(&principal.org, action, pin, &principal.id).await?;
        Ok(Reviewed::Done)
    }

    /// Installing a package, or adding a source, counts as the first review of each of its actions, because the person who does it has
    /// looked at them. If a service does, nobody has: an action that has to be reviewed is not pinned then, or a service could install what
    /// appeared until it counts as read. If an action was reviewed with another definition before, or is no longer the one that was
    /// `scanned`, this does not review it: a person has to look at the change.
    pub async fn review_installed(&self, principal: &Principal, action: &ActionId, scanned: Option<Digest>) -> Result<(), Error> {
        let Some((source, now)) = self.definition_now(&principal.org, action).await? else {
            return Ok(());
        };
        let pin = self.ledger().find_pin(&principal.org, action).await?;
        let is_other = pin.is_some_and(|pin| (pin.structural, pin.textual) != (now.structural, now.textual));
        if is_other || scanned.is_some_and(|scanned| scanned != now.textual) {
            return Ok(());
        }
        if matches!(principal.id, PrincipalId::User(_)) {
            return self.review(principal, action, Some(now.textual), Wording::Reviewed).await.map(|_| ());
        }
        if source.needs_review() { Ok(()) } else { self.pin_unread(principal, &now).await }
    }

    /// Pins the current definition of an action that is allowed to run without a person. A later difference is then drift, although nobody
    /// has read the definition. If the source cannot be asked, nothing is pinned; nor if the action has to be reviewed, since a mode is no
    /// review.
    pub async fn keep_as_it_is(&self, principal: &Principal, action: &ActionId) -> Result<(), Error> {
        match self.definition_now(&principal.org, action).await {
            Ok(Some((source, definition))) if !source.needs_review() => self.pin_unread(principal, &definition).await,
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Pins a definition that nobody has read, unless the action has a pin.
    async fn pin_unread(&self, principal: &Principal, definition: &Definition) -> Result<(), Error> {
        self.walk.archive(&principal.org, definition).await?;
        let (structural, textual) = (definition.structural, definition.textual);
        let pin = Pin { structural, textual, wording: Wording::Unread, seen: None, changed_at: None };
        self.ledger().pin_first(&principal.org, &definition.action.id, pin, &principal.id).await?;
        Ok(())
    }

    /// Lists every source, so that a remote one is asked also while nobody calls it, records what has drifted as a call would, and counts the
    /// actions that have appeared.
    pub async fn look_at_sources(&self, org: &OrgId) -> Result<(), Error> {
        for source in self.catalogue().list(org).await {
            if self.catalogue().needs_review(org, &source.id).await {
                for action in &source.actions {
                    if let Ok(Some(current)) = self.walk.find_current(Eyes::Org(org), &action.id).await? {
                        self.walk.note_drift(org, &current).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Digests and text of an action's current definition; `None` if there is no such action.
    pub async fn definition_of(&self, org: &OrgId, action: &ActionId) -> Result<Option<DefinitionNow>, Error> {
        let definition = self.definition_now(org, action).await?;
        Ok(definition.map(|(source, definition)| DefinitionNow {
            needs_review: source.needs_review(),
            structural: definition.structural,
            textual: definition.textual,
            text: policy::digest::textual_body(&definition.action),
            is_never_granted: policy::is_never_granted(definition.action.tier, definition.action.profile),
            action: Arc::clone(&definition.action),
        }))
    }

    async fn definition_now(&self, org: &OrgId, action: &ActionId) -> Result<Option<(Arc<dyn Source>, Arc<Definition>)>, Error> {
        let found = self.walk.find_current(Eyes::Org(org), action).await?;
        let found = found.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        Ok(found.map(|current| (current.found.source, current.found.definition)))
    }
}

/// An action's definition as its source gives it now.
pub struct DefinitionNow {
    pub structural: Digest,
    pub textual: Digest,
    pub action: Arc<Action>,
    /// Canonical JSON.
    pub text: String,
    /// Whether no grant can cover the action: its calls must be approved one at a time.
    pub is_never_granted: bool,
    /// Whether the action needs an approval for every call until somebody has reviewed it.
    pub needs_review: bool,
}

impl DefinitionNow {
    pub fn drift_from(&self, pin: &Pin) -> Drift {
        drift_from(pin, self.structural, self.textual)
    }

    /// How it differs from what was reviewed. `None`: nobody has reviewed it, and nobody has to.
    pub fn drift_since(&self, pin: Option<&Pin>) -> Option<Drift> {
        match pin {
            Some(pin) => Some(self.drift_from(pin)),
            None => self.needs_review.then_some(Drift::Appeared),
        }
    }
}

/// The result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reviewed {
    Done,
    /// The definition that was shown is not the current one.
    OtherDefinition,
}
