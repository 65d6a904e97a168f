//! Whether an action is still what a person reviewed. This is checked with every call, not only when actions are listed.

use super::admit::Admitted;
use super::ending::Ending;
use super::ground::Walk;
use crate::catalogue::Definition;
use crate::error::Error;
use countersign_core::decision::Drift;
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::ledger::{Finished, NewDrift, Pin, Row, Wording};
use countersign_core::source::Source;
use countersign_core::{Action, ActionId, Digest, OrgId, Status};
use parking_lot::Mutex;
use std::collections::HashSet;

/// How many actions are remembered as counted. Beyond this, all are forgotten, so that a source that invents names cannot fill the memory.
const COUNTED_MAX: usize = 100_000;

/// The actions that were counted as appeared, each once.
#[derive(Default)]
pub(crate) struct Appeared(Mutex<HashSet<(OrgId, ActionId)>>);

impl Appeared {
    fn count(&self, org: &OrgId, action: &ActionId) {
        let mut counted = self.0.lock();
        if counted.len() >= COUNTED_MAX {
            counted.clear();
        }
        if counted.insert((org.clone(), action.clone())) {
            count_drift(action, Drift::Appeared);
        }
    }
}

impl Walk {
    /// How the definition differs from the reviewed one. The first call that sees a difference records it, which ends the action's pending
    /// calls and revokes its grants. Of an action that nobody has reviewed nothing is recorded.
    pub(crate) async fn drift_of(&self, admitted: &mut Admitted, source: &dyn Source, definition: &Definition) -> Result<Drift, Error> {
        let org = admitted.session.org.clone();
        let action = &definition.action.id;
        let Some(pin) = self.ledger().find_pin(&org, action).await? else {
            return Ok(self.unreviewed(&org, action, source.needs_review()));
        };
        let drift = drift_from(&pin, definition.structural, definition.textual);
        let noted = NewDrift { action: action.clone(), drift, structural: definition.structural, textual: definition.textual };
        let is_known = pin.seen == Some((definition.structural, definition.textual));
        // A known drift is checked too: the server that recorded it may have stopped before it had ended all pending calls.
        if drift != Drift::None && self.note(&org, noted, is_known).await? {
            // Recording the drift changed the rules, so everything read under the old version is read again.
            admitted.rules_version = self.ledger().rules_version(&org).await?;
            admitted.space = self.space_of(&admitted.session).await?;
        }
        Ok(drift)
    }

    /// How an action differs from its reviewed definition, without recording it.
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
        self.inner.appeared.count(org, action);
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

fn drifted(action: &ActionId) -> String {
    format!("the definition of `{action}` changed while the call was pending; review the action and make a new call")
}
