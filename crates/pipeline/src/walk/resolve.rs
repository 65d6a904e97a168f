//! Stage 2: finds the requested action, as its source defines it now.

use crate::catalogue::{Definition, Eyes, Found};
use crate::error::Error;
use crate::limits::LISTING_STALE_MAX_SECONDS;
use crate::walk::admit::Admitted;
use crate::walk::drift::Current;
use crate::walk::ground::Walk;
use crate::walk::stage::Stage;
use countersign_core::call::Planned;
use countersign_core::decision::Drift;
use countersign_core::ledger::ArchivedDefinition;
use countersign_core::source::{self, SentAs, Source};
use countersign_core::{Action, ActionId, ConnectionId, Digest, OrgId, Tier};
use std::sync::Arc;

/// A request whose action is known.
pub(crate) struct Resolved {
    pub(crate) admitted: Box<Admitted>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) definition: Arc<Definition>,
    /// How the definition differs from the reviewed one.
    pub(crate) drift: Drift,
    /// As whom the source sends the call's requests now.
    pub(crate) sent_as: Option<SentAs>,
}

impl Resolved {
    pub(crate) fn action(&self) -> &Action {
        &self.definition.action
    }

    /// The connection whose credential the call's requests carry, if any.
    pub(crate) fn connection(&self) -> Option<&ConnectionId> {
        self.sent_as.as_ref().and_then(SentAs::connection)
    }

    /// The tier of the call: the definition's, or the caller's if that is higher.
    pub(crate) fn tier(&self) -> Tier {
        self.admitted.request.call.bounds.tier.map_or(self.action().tier, |said| said.max(self.action().tier))
    }

    /// What the call says as a plan, if it is one.
    pub(crate) fn plan(&self) -> Option<&Planned> {
        self.admitted.request.call.older.as_ref()?.plan.as_ref()
    }
}

/// The action that a call refers to.
enum Meant {
    Now(Current),
    /// The definition that the effect to revert was made under. It is not reviewed again: none of its code runs.
    Past(Arc<dyn Source>, Arc<Definition>),
}

impl Walk {
    pub(crate) async fn resolve(&self, mut admitted: Box<Admitted>) -> Result<Resolved, Error> {
        let _timed = self.timed(Stage::Resolve);
        let current = match self.find_meant(&admitted).await? {
            Meant::Now(current) => current,
            Meant::Past(source, definition) => return self.resolved(admitted, source, definition, Drift::None).await,
        };
        self.archive(&admitted.session.org, &current.found.definition).await?;
        let drift = self.drift_of(&mut admitted, &current).await?;
        let Found { source, definition, .. } = current.found;
        self.resolved(admitted, source, definition, drift).await
    }

    /// Resolves a call for a preview: archives nothing, and does not record a drift.
    pub(crate) async fn resolve_readonly(&self, admitted: Box<Admitted>) -> Result<Resolved, Error> {
        let current = match self.find_meant(&admitted).await? {
            Meant::Now(current) => current,
            Meant::Past(source, definition) => return self.resolved(admitted, source, definition, Drift::None).await,
        };
        let drift = self.drift_unrecorded(&admitted.session.org, &current);
        let Found { source, definition, .. } = current.found;
        self.resolved(admitted, source, definition, drift).await
    }

    async fn resolved(
        &self,
        admitted: Box<Admitted>,
        source: Arc<dyn Source>,
        definition: Arc<Definition>,
        drift: Drift,
    ) -> Result<Resolved, Error> {
        let sent_as = self.ask_as_whom(&*source, &admitted.session).await;
        let sent_as = sent_as.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        Ok(Resolved { admitted, source, definition, drift, sent_as })
    }

    async fn find_meant(&self, admitted: &Admitted) -> Result<Meant, Error> {
        let (session, named) = (&admitted.session, &admitted.request.action);
        let Ok(id) = ActionId::parse(named) else {
            return Err(self.unknown_action(session, named).await);
        };
        // What a session did can be reverted even if it no longer sees the source.
        let eyes = if admitted.request.reverses.is_some() { Eyes::Org(&session.org) } else { Eyes::Session(session) };
        let found = self.find_current(eyes, &id).await?;
        let now = found.as_ref().ok().and_then(Option::as_ref).map(|current| &*current.found.definition);
        if let Some((source, definition)) = self.past_of_reversed(admitted, &id, now).await? {
            return Ok(Meant::Past(source, definition));
        }
        let found = found.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        match (found, &admitted.request.reverses) {
            (Some(current), _) => self.unless_too_old(current).map(Meant::Now),
            (None, Some(reversed)) => {
                Err(Error::NotRevertible { invocation: reversed.clone(), why: "its action is gone, and its definition was not kept" })
            }
            (None, None) => Err(self.unknown_action(session, named).await),
        }
    }

    /// SECURITY: a source that fails to list its actions could otherwise be called for ever by what was reviewed long ago.
    fn unless_too_old(&self, current: Current) -> Result<Current, Error> {
        let Found { source, listed_at, is_stale, .. } = &current.found;
        if !is_stale || self.now() < listed_at.plus_seconds(LISTING_STALE_MAX_SECONDS) {
            return Ok(current);
        }
        let message = format!("it has not listed its actions since {listed_at}, and they may have changed");
        let error = source::Error::Unreachable { source_id: source.id().to_string(), message };
        Err(Error::SourceUnavailable { message: error.to_string() })
    }

    pub(crate) async fn unknown_action<'a>(&self, eyes: impl Into<Eyes<'a>>, named: &str) -> Error {
        let suggestions = self.inner.catalogue.suggest(eyes, named).await;
        Error::UnknownAction { action: named.chars().filter(|character| !character.is_control()).take(160).collect(), suggestions }
    }

    /// Archives the definition, so that a later verifier of a receipt finds the definition that the call was checked against.
    pub(crate) async fn archive(&self, org: &OrgId, definition: &Definition) -> Result<(), Error> {
        for (digest, body) in definition.archive.iter() {
            if !self.inner.catalogue.is_archived(org, *digest) {
                self.archive_once(org, *digest, body.clone()).await?;
            }
        }
        Ok(())
    }

    /// Stores a text that receipts refer to by its digest.
    pub(crate) async fn archive_once(&self, org: &OrgId, digest: Digest, body: String) -> Result<(), Error> {
        if !self.inner.catalogue.is_archived(org, digest) {
            self.ledger().archive_definition(org, ArchivedDefinition { digest, body }).await?;
            self.inner.catalogue.mark_archived(org, digest);
        }
        Ok(())
    }
}
