//! The intent: a durable entry that says what is about to happen. After it, a crash leaves the call in doubt.

use super::binding::seal_params;
use super::decide::Cleared;
use super::ending::{Ending, STORE_AWAY_MAX, evidence_digest};
use super::ground::Walk;
use super::hold::Void;
use super::join::is_caller_gone;
use super::replay::{Taken, key_seconds};
use crate::error::{Conflict, Error};
use crate::line::Kept;
use countersign_core::action::Class;
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition};
use countersign_core::invocation::{Beyond, Failure};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::{Begin, BeginAgain, Begun, BeyondOnce, EntryDraft, EntryId, NewReservation, Row};
use countersign_core::observe::Observed;
use countersign_core::{Digest, GrantId, IntentId, Invocation, PrincipalId, Status, ledger};
use durable::Pace;
use receipt::body::{ApprovalBody, Body as _, DefinitionDigests, IntentBody};
use std::sync::Arc;

/// The facts that all intents of one call share.
pub(crate) struct Announcement {
    pub(crate) approval: Option<ApprovalBody>,
    pub(crate) grant: Option<GrantId>,
    pub(crate) idempotency: Option<Digest>,
    pub(crate) profile: String,
    pub(crate) key: Arc<dyn SpaceKey>,
}

/// The result of writing the first intent of a call.
pub(super) enum Started {
    Row(Row),
    /// The approval could no longer be used.
    Void(Box<Void>),
    /// Another call under the same idempotency key started first.
    Elsewhere(Box<Taken>),
    /// The caller has gone before anything began.
    CallerLeft,
    /// A rule changed, or the grant was used up: the call is decided again.
    RulesChanged,
}

/// The result of writing the intent of a further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnnouncedAgain {
    Written,
    /// The store is unavailable, or another server has claimed the call. The same intent may be written later.
    NotYet,
    Never,
}

impl Walk {
    /// Writes the intent. After it, a crash leaves the call in doubt.
    pub(super) async fn begin(&self, cleared: &Cleared, invocation: &mut Invocation) -> Result<Started, Error> {
        let row = if cleared.approval().is_some() { Row::From(Status::Approved) } else { Row::Insert };
        if row != Row::Insert {
            self.carry_answer(invocation).await?;
        } else if is_caller_gone(cleared.gated()) {
            return Ok(Started::CallerLeft);
        }
        let expires_at = invocation.created_at.plus_seconds(key_seconds(invocation.intention));
        let instead_of = cleared.gated().validated.resolved.admitted.entrance.replaces().cloned();
        let key = invocation.idempotency_key.clone().filter(|_| row == Row::Insert);
        let reservation = key.map(|key| NewReservation { key, expires_at, instead_of });
        let line = cleared.gated().validated.resolved.admitted.request.line.as_ref();
        let new_line = self.line_of(cleared.gated()).filter(|_| row == Row::Insert && is_write(cleared));
        let kept = if new_line.is_some() { Kept::Begun } else { Kept::Nowhere };
        let begin = Begin {
            invocation: invocation.clone(),
            row,
            intent: self.intent(&self.announcement(cleared), invocation)?,
            sealed_params: self.kept_params(cleared, row)?,
            reservation,
            rules_version: cleared.rules_version(),
            line: new_line,
            beyond: self.beyond(cleared, invocation),
        };
        let given = match &begin.beyond {
            Some(BeyondOnce::Grant { id, .. }) => Some(id.clone()),
            Some(BeyondOnce::Always { .. }) | None => None,
        };
        let void = |conflict| Started::Void(Box::new(Void { invocation: invocation.clone(), conflict }));
        let begun = self.ledger().begin(begin).await;
        if matches!(begun, Err(ledger::Error::CommitUnknown { .. })) {
            self.abandon(cleared, invocation.clone());
        }
        Ok(match begun? {
            Begun::Started => {
                log_grant("grant given", given.as_ref(), invocation);
                log_grant("grant used", cleared.grant(), invocation);
                if let Some(line) = line {
                    line.carries(&invocation.id, kept);
                }
                Started::Row(Row::Begun)
            }
            Begun::RulesChanged | Begun::GrantSpent => Started::RulesChanged,
            Begun::KeyTaken(reservation) => Started::Elsewhere(Box::new(Taken::by(invocation, reservation))),
            Begun::Expired => void(Conflict::Expired),
            Begun::CallerLeft => void(Conflict::CallerLeft),
            Begun::Not(_) | Begun::Missing => void(Conflict::Consumed),
        })
    }

    /// The highest number of attempts: the server's setting, or the caller's limit if that is lower.
    pub(crate) fn attempts_max(&self, invocation: &Invocation) -> u32 {
        let wanted = invocation.call.bounds.retries_max.map_or(u32::MAX, |retries| retries.saturating_add(1));
        self.inner.settings.attempts_max.min(wanted)
    }

    /// Writes the intent of a further attempt that may also be left out. Returns whether it was written.
    pub(crate) async fn begin_again(&self, cleared: &Cleared, invocation: &Invocation, rules_version: Option<i64>) -> Result<bool, Error> {
        let announced = self.announce_again(&self.announcement(cleared), invocation, rules_version).await?;
        Ok(announced == AnnouncedAgain::Written)
    }

    /// Writes the intent of a further attempt of a call that is running or in doubt.
    pub(crate) async fn announce_again(
        &self,
        announcement: &Announcement,
        invocation: &Invocation,
        rules_version: Option<i64>,
    ) -> Result<AnnouncedAgain, Error> {
        let intent = self.intent(announcement, invocation)?;
        let begun = self.ledger().begin_again(BeginAgain { invocation: invocation.clone(), intent, rules_version }).await;
        Ok(match begun {
            Ok(Begun::Started) => AnnouncedAgain::Written,
            Err(ledger::Error::CommitUnknown { .. }) => match self.is_at_attempt(invocation).await {
                Some(true) => AnnouncedAgain::Written,
                Some(false) => AnnouncedAgain::NotYet,
                None => return Err(Error::Unrecorded { invocation: invocation.id.clone() }),
            },
            Err(ledger::Error::Unavailable { .. } | ledger::Error::Fenced) => AnnouncedAgain::NotYet,
            // Another server considered this one gone, claimed the call, and is reconciling it.
            Ok(Begun::Not(status)) if status == invocation.status => AnnouncedAgain::NotYet,
            Ok(
                Begun::Not(_)
                | Begun::Missing
                | Begun::Expired
                | Begun::CallerLeft
                | Begun::KeyTaken(_)
                | Begun::RulesChanged
                | Begun::GrantSpent,
            )
            | Err(ledger::Error::Corrupt { .. }) => AnnouncedAgain::Never,
        })
    }

    /// Whether the row already has this attempt, which means that its intent was written after all. Waits while the store is unavailable:
    /// the receipt must count every intent, and could not be written without the store anyway. `None`: the store did not come back.
    async fn is_at_attempt(&self, invocation: &Invocation) -> Option<bool> {
        let find = || self.ledger().find_invocation(&invocation.org, &invocation.id);
        let row = Pace::for_at_most(STORE_AWAY_MAX).retry(Result::is_err, find).await.ok()?;
        Some(row.is_some_and(|row| row.attempts == invocation.attempts))
    }

    /// Ends a call whose intent may have been written although nothing was sent: its row must not stay `running`.
    fn abandon(&self, cleared: &Cleared, invocation: Invocation) {
        let walk = self.clone();
        let (policy_slice, approval) = (cleared.policy_slice(), approval_body(cleared));
        let validated = &cleared.gated().validated;
        let (profile, idempotency) = (validated.resolved.action().profile.as_str().to_owned(), validated.idempotency_digest());
        let walking = self.inner.walking.join(&invocation.id);
        let (org, id, line) = (invocation.org.clone(), invocation.id.clone(), validated.resolved.admitted.request.line.clone());
        self.spawn(async move {
            let _walking = walking;
            let message = "the store went away while the intent was written; nothing was sent".to_owned();
            let failure = Failure { code: "store_unavailable".into(), message };
            let mut ending = Ending::unexecuted(invocation, Status::Failed, None, failure, Row::From(Status::Running));
            ending.return_grant();
            (ending.policy_slice, ending.profile) = (policy_slice, profile);
            (ending.approval, ending.idempotency) = (approval, idempotency);
            if let Err(error) = walk.record_ending(ending).await {
                tracing::debug!(%error, "an intent that was perhaps written needs no end");
            }
            // Its caller is told that nothing was done: there is nothing to ask again for.
            if let Some(line) = line
                && let Err(error) = walk.ledger().hang_up(&org, &id, line.id()).await
            {
                tracing::debug!(%error, "the line of a call that was not sent is forgotten later");
            }
        });
    }

    /// Copies what only the held row has: the answer, the approvals, the edit, the binding, and when it was claimed.
    async fn carry_answer(&self, invocation: &mut Invocation) -> Result<(), Error> {
        let held = self.ledger().find_invocation(&invocation.org, &invocation.id).await?;
        let held = held.ok_or_else(|| Error::UnknownInvocation { invocation: invocation.id.to_string() })?;
        invocation.answer = held.answer;
        invocation.approvals = held.approvals;
        invocation.edit = held.edit;
        invocation.observed = held.observed;
        invocation.binding = held.binding;
        invocation.taken_up_at = held.taken_up_at;
        Ok(())
    }

    /// What the approvers grant beyond this one call. It counts only if all of them chose the same.
    fn beyond(&self, cleared: &Cleared, invocation: &Invocation) -> Option<BeyondOnce> {
        cleared.approval()?;
        let last = invocation.approvals.last()?;
        if invocation.approvals.iter().any(|approval| approval.beyond != last.beyond) {
            return None;
        }
        let resolved = &cleared.gated().validated.resolved;
        match &last.beyond {
            Beyond::Once => None,
            Beyond::Always => {
                let is_own = invocation.owner.as_ref().is_some_and(|owner| last.by == PrincipalId::User(owner.clone()));
                let consents = is_own && policy::is_consent_by_approval(&invocation.gates);
                Some(BeyondOnce::Always { automation: resolved.admitted.session.automation.clone(), by: last.by.clone(), consents })
            }
            Beyond::Grant(offer) => Some(BeyondOnce::Grant {
                id: GrantId::new(self.now(), self.random_bytes()),
                terms: Box::new(GrantTerms {
                    scope: offer.scope.clone(),
                    space: Some(invocation.space.clone()).filter(|_| offer.scope != GrantScope::Org),
                    covers: Covers::only(&invocation.action),
                    condition: None,
                    calls_max: offer.calls_max,
                    sum_max: offer.sum_max.clone(),
                    definition: Some(GrantedDefinition { structural: invocation.digests.structural, textual: invocation.digests.textual }),
                }),
                lifetime_seconds: offer.lifetime_seconds,
                by: last.by.clone(),
            }),
        }
    }

    /// The params, kept sealed until the call ends, so that after a crash the call can be reconciled.
    fn kept_params(&self, cleared: &Cleared, row: Row) -> Result<Option<Vec<u8>>, Error> {
        if row == Row::Insert && is_write(cleared) { seal_params(cleared.gated()).map(Some) } else { Ok(None) }
    }

    pub(super) fn announcement(&self, cleared: &Cleared) -> Announcement {
        let validated = &cleared.gated().validated;
        Announcement {
            approval: approval_body(cleared),
            grant: cleared.grant().cloned(),
            idempotency: validated.idempotency_digest(),
            profile: validated.resolved.action().profile.as_str().to_owned(),
            key: Arc::clone(&validated.key),
        }
    }

    pub(crate) fn intent(&self, announcement: &Announcement, invocation: &Invocation) -> Result<EntryDraft, Error> {
        let id = IntentId::new(self.now(), self.random_bytes());
        let body = IntentBody {
            intent_id: id.clone(),
            invocation_id: invocation.id.clone(),
            attempt: invocation.attempts,
            batch: invocation.batch.as_ref().map(|part| part.batch.clone()),
            reverses: invocation.reverses.clone(),
            principal: invocation.principal.clone(),
            owner: invocation.owner.clone().filter(|_| matches!(invocation.principal, PrincipalId::Automation(_))),
            asked_by: invocation.asked_by.clone(),
            space: invocation.space.clone(),
            action: invocation.action.clone(),
            connection_id: invocation.connection.clone(),
            tier: invocation.tier,
            definition: DefinitionDigests { structural: invocation.digests.structural, textual: invocation.digests.textual },
            params: invocation.digests.params,
            raw: invocation.digests.raw,
            decision: invocation.decision.clone(),
            approval: announcement.approval.clone(),
            grant: announcement.grant.clone(),
            observed: invocation.observed.is_some_and(Observed::ran_unasked),
            spends: invocation.spends,
            idempotency_key: announcement.idempotency,
            evidence: invocation.evidence.as_ref().map(|evidence| evidence_digest(&*announcement.key, evidence)),
            profile: announcement.profile.clone(),
            purpose: invocation.purpose,
            trace_id: invocation.trace_id.clone(),
        };
        let body = body.to_canonical().map_err(|error| Error::Internal { message: error.to_string() })?;
        Ok(EntryDraft { id: EntryId::Intent(id), body })
    }
}

/// A read that needs no approval, no grant and no idempotency key can simply be repeated, so it needs no intent. Every other call does.
pub(super) fn needs_intent(cleared: &Cleared) -> bool {
    let is_permitted = cleared.approval().is_some() || cleared.grant().is_some() || cleared.observed().is_some();
    is_write(cleared) || is_permitted || cleared.gated().validated.idempotency_key.is_some()
}

fn is_write(cleared: &Cleared) -> bool {
    cleared.gated().validated.resolved.tier().class() != Class::Read
}

pub(super) fn approval_body(cleared: &Cleared) -> Option<ApprovalBody> {
    let approval = cleared.approval()?;
    Some(ApprovalBody { approvers: approval.approvers().to_vec(), binding: approval.binding() })
}

/// A grant that the intent of this call gave or used.
fn log_grant(what: &str, grant: Option<&GrantId>, invocation: &Invocation) {
    if let Some(grant) = grant {
        let Invocation { id, org, session, action, .. } = invocation;
        tracing::info!(%grant, %org, %session, invocation = %id, %action, "{what}");
    }
}
