//! Whether an action is still what a person reviewed. This is checked with every call, not only when actions are listed.

use super::admit::Admitted;
use super::ending::Ending;
use super::ground::Walk;
use crate::catalogue::{Definition, Eyes, Found};
use crate::error::Error;
use countersign_core::decision::Drift;
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::ledger::{Finished, NewDrift, Pin, Row, Wording};
use countersign_core::source;
use countersign_core::{Action, ActionId, Digest, OrgId, Status};

/// An action as its source defines it now, with what is recorded of its review.
pub(crate) struct Current {
    pub(crate) found: Found,
    pin: Option<Pin>,
}

impl Walk {
    /// The action as its source defines it now. A server beside this one may have listed a remote source later: so if the record of the
    /// review is about another definition, the source is asked once more before anything is decided or recorded by the one known here.
    pub(crate) async fn find_current(&self, eyes: Eyes<'_>, id: &ActionId) -> Result<Result<Option<Current>, source::Error>, Error> {
        let (org, catalogue) = (eyes.org(), &self.inner.catalogue);
        let mut found = catalogue.look_up(eyes, id).await;
        let pin = self.ledger().find_pin(org, id).await?;
        let known = found.as_ref().ok().and_then(Option::as_ref).filter(|known| known.source.is_remote());
        let doubted = pin.as_ref().filter(|pin| known.is_some_and(|known| !agrees(pin, &known.definition)));
        if let Some(changed_at) = doubted.map(|pin| pin.changed_at) {
            let now = self.ledger().now().await?;
            // The rare path is boxed: inline, it would make the future of every call larger.
            Box::pin(catalogue.confirm(org, id.source(), changed_at, now)).await;
            found = catalogue.look_up(eyes, id).await;
        }
        Ok(found.map(|found| found.map(|found| Current { found, pin })))
    }

    /// How the definition differs from the reviewed one. The first call that sees a difference records it.
    pub(crate) async fn drift_of(&self, admitted: &mut Admitted, current: &Current) -> Result<Drift, Error> {
        let org = admitted.session.org.clone();
        let (drift, is_noted) = self.note_drift(&org, current).await?;
        if is_noted {
            // Recording the drift changed the rules, so everything read under the old version is read again.
            admitted.rules_version = self.ledger().rules_version(&org).await?;
            admitted.space = self.space_of(&admitted.session).await?;
        }
        Ok(drift)
    }

    /// How the definition differs from the reviewed one, and whether anything was recorded about it. Recording a drift ends the action's
    /// pending calls and revokes its grants. Nothing is recorded of an action that nobody has reviewed, nor of a listing that may be
    /// outdated because the source cannot be asked.
    pub(crate) async fn note_drift(&self, org: &OrgId, current: &Current) -> Result<(Drift, bool), Error> {
        let drift = self.drift_unrecorded(org, current);
        let Current { found: Found { definition, is_stale, .. }, pin } = current;
        let Some(pin) = pin.as_ref().filter(|_| drift != Drift::None && !is_stale) else {
            return Ok((drift, false));
        };
        let (structural, textual) = (definition.structural, definition.textual);
        let noted = NewDrift { action: definition.action.id.clone(), drift, structural, textual };
        // A known drift is checked too: the server that recorded it may have stopped before it had ended all pending calls.
        Ok((drift, self.note(org, noted, pin.seen == Some((structural, textual))).await?))
    }

    /// How the definition differs from the reviewed one. While the source cannot be asked, what another server saw of it counts as well.
    pub(crate) fn drift_unrecorded(&self, org: &OrgId, current: &Current) -> Drift {
        let Current { found: Found { source, definition, is_stale, .. }, pin } = current;
        let Some(pin) = pin else {
            return self.unreviewed(org, &definition.action.id, source.needs_review());
        };
        match (drift_from(pin, definition.structural, definition.textual), pin.seen) {
            (Drift::None, Some((structural, textual))) if *is_stale => drift_from(pin, structural, textual),
            (drift, Some(_) | None) => drift,
        }
    }

    /// How a listed action differs from its reviewed definition, without recording it.
    pub(crate) async fn drift_seen(&self, org: &OrgId, action: &Action, needs_review: bool) -> Result<Drift, Error> {
        Ok(match self.ledger().find_pin(org, &action.id).await? {
            Some(pin) => drift_from(&pin, policy::digest::structural(action), policy::digest::textual(action)),
            None => self.unreviewed(org, &action.id, needs_review),
        })
    }

    /// The drift of an action that nobody has reviewed.
    fn unreviewed(&self, org: &OrgId, action: &ActionId, needs_review: bool) -> Drift {
        if !needs_review {
            return Drift::None;
        }
        if self.inner.appeared.is_new(org, action) {
            count_drift(action, Drift::Appeared);
        }
        Drift::Appeared
    }

    /// The scan's findings in a definition, if no person has read the definition in its current form.
    pub(crate) async fn unread_findings<'a>(&self, org: &OrgId, definition: &'a Definition) -> Result<&'a [policy::Finding], Error> {
        if definition.findings.is_empty() {
            return Ok(&[]);
        }
        let pin = self.ledger().find_pin(org, &definition.action.id).await?;
        let is_read =
            |pin: &Pin| pin.wording != Wording::Unread && (pin.structural, pin.textual) == (definition.structural, definition.textual);
        Ok(if pin.as_ref().is_some_and(is_read) { &[] } else { &definition.findings })
    }

    /// Records a drift that is not known yet, and ends all pending calls of other definitions, a bounded number per write. For a known
    /// drift only the oldest pending calls are looked at: calls are ended oldest first, so what was left over is among them. Returns
    /// whether there was anything to do.
    async fn note(&self, org: &OrgId, drift: NewDrift, is_known: bool) -> Result<bool, Error> {
        if !is_known {
            tracing::warn!(action = %drift.action, drift = drift.drift.as_str(), "the definition is no longer the one that was reviewed");
        }
        let (mut is_written, mut after) = (is_known, None);
        loop {
            let mut pending = self.ledger().list_pending_of(org, &drift.action, after.as_ref()).await?;
            let last = pending.last().map(|last| last.id.clone());
            pending.retain(|waiting| (waiting.digests.structural, waiting.digests.textual) != (drift.structural, drift.textual));
            if is_known && pending.is_empty() {
                return Ok(after.is_some());
            }
            let ends = pending.into_iter().map(|waiting| {
                let failure = Failure { code: "definition_mismatch".into(), message: drifted(&drift.action) };
                self.finish_of(Ending::unexecuted(waiting, Status::Denied, Some(DeniedBy::Drift), failure, Row::From(Status::Pending)))
            });
            let ends = ends.collect::<Result<Vec<_>, _>>()?;
            if !is_written || !ends.is_empty() {
                let ended = self.ledger().drift(org, drift.clone(), ends.clone()).await?;
                if !is_written {
                    count_drift(&drift.action, drift.drift);
                }
                is_written = true;
                for (finish, ended) in ends.iter().zip(ended) {
                    if matches!(ended, Finished::Recorded { .. }) {
                        self.tell(&finish.invocation);
                    }
                }
            }
            let Some(last) = last else { return Ok(true) };
            after = Some(last);
        }
    }
}

fn count_drift(action: &ActionId, drift: Drift) {
    metrics::counter!("countersign_drift_total", "source" => action.source().to_owned(), "kind" => drift.as_str()).increment(1);
}

/// A change of the wording alone is drift too, unless the reviewer chose to ignore wording.
pub(crate) fn drift_from(pin: &Pin, structural: Digest, textual: Digest) -> Drift {
    if pin.structural != structural {
        Drift::Structural
    } else if pin.textual != textual && pin.wording != Wording::Ignored {
        Drift::Textual
    } else {
        Drift::None
    }
}

/// Whether the record of a review is about this definition: as the reviewed one, or as the one that was seen since.
fn agrees(pin: &Pin, definition: &Definition) -> bool {
    let (structural, textual) = (definition.structural, definition.textual);
    match pin.seen {
        Some(seen) => seen == (structural, textual),
        None => drift_from(pin, structural, textual) == Drift::None,
    }
}

fn drifted(action: &ActionId) -> String {
    format!("the definition of `{action}` changed while the call was pending; review the action and make a new call")
}
