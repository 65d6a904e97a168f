//! Stage 8: the effect. What undoes it first, then the intent, durably; then the source; then what is known of the outcome.

mod ask;
mod find_out;

pub(crate) use ask::Subject;

use crate::admit::Admitted;
use crate::catalogue::Definition;
use crate::decide::{Cleared, PreviewOnly};
use crate::gate::Gated;
use crate::hold::{Void, seal_params};
use crate::record::{Ending, is_passing};
use crate::replay::Taken;
use crate::{Conflict, Error, Pipeline, Walked};
use countersign_core::action::{Class, Preview, Reversibility};
use countersign_core::effect::{Check, Reconciled};
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition};
use countersign_core::invocation::{Announced, Beyond, Failure, Intention};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::{Begin, BeginAgain, Begun, BeyondOnce, EntryDraft, EntryId, Finished, NewReservation, Row};
use countersign_core::limits::RECORD_RETRY_SECONDS;
use countersign_core::source::{self, AfterError, Output, Source};
use countersign_core::{Digest, GrantId, IntentId, Invocation, InvocationId, Status, ledger};
use receipt::body::{ApprovalBody, Body as _, DefinitionDigests, IntentBody};
use serde_json::{Value, json};
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Executed {
    /// The source answered, or is known not to have done anything.
    Done(Box<Done>),
    /// It may have happened.
    InDoubt(Box<Invocation>),
    /// Another call under the same idempotency key was first.
    Elsewhere(Box<Taken>),
    /// The approval could not be used any more.
    Void(Box<Void>),
    /// A rule changed, or the grant was used up: nothing has happened, and it is decided again.
    RulesChanged(Box<Admitted>),
}

/// A call that the source answered, one way or the other.
pub(crate) struct Done {
    pub(crate) origin: Origin,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) invocation: Invocation,
    pub(crate) row: Row,
    pub(crate) answer: Result<Output, source::Error>,
    pub(crate) policy_slice: Digest,
    pub(crate) approval: Option<ApprovalBody>,
    pub(crate) key: Arc<dyn SpaceKey>,
    pub(crate) idempotency: Option<Digest>,
    /// Recovery leaves it alone until its outcome is recorded.
    pub(crate) walking: Option<Walking>,
}

/// What a call that was answered is made of.
pub(crate) enum Origin {
    Cleared(Box<Cleared>),
    Previewed(Box<Gated>),
    /// A crash left it behind: it was cleared then, and can be looked at, taken back and recorded now, but not made again.
    LeftBehind {
        params: Value,
    },
}

impl Pipeline {
    pub(crate) async fn execute(&self, cleared: Cleared) -> Result<Executed, Error> {
        let mut invocation = cleared.gated().to_invocation(Status::Running, cleared.decision());
        invocation.attempts = 1;
        invocation.started_at = Some(self.now());
        invocation.grant = cleared.grant().cloned();
        let profile = cleared.gated().validated.resolved.action().profile.as_str().to_owned();
        invocation.announced = Some(Announced { policy_slice: cleared.policy_slice(), profile });
        let target = match self.breaker(&cleared).await? {
            Ok(target) => target,
            Err(open) => {
                invocation.attempts = 0;
                let walking = Walking::begin(self, &invocation.id);
                return Ok(Executed::Done(Box::new(Done::cleared(cleared, invocation, Row::Insert, Err(open), walking))));
            }
        };
        self.label_before(cleared.gated()).await?;
        self.inner.boards.decided(&invocation.id, rules_version(&cleared));
        // Before its row is there: whatever runs and is not being walked was left behind.
        let walking = Walking::begin(self, &invocation.id);
        let (row, ready) = if needs_intent(&cleared) {
            let ready = self.make_ready(&cleared, &mut invocation, &[]).await?;
            self.fault("execute.prepared");
            match self.begin(&cleared, &mut invocation).await? {
                Started::Row(row) => {
                    self.inner.boards.intended(&invocation.id);
                    (row, ready)
                }
                Started::Not(executed) => return Ok(executed),
                Started::Undecided => return Ok(Executed::RulesChanged(Box::new(cleared.undecided()))),
            }
        } else {
            (Row::Insert, Ok(()))
        };
        self.fault("execute.intended");
        let answer = self.attempt(&cleared, &mut invocation, &row, ready).await?;
        self.count_outcome(&cleared, target, &answer).await;
        self.fault("execute.effected");
        let answer = self.look_again(&cleared, &mut invocation, answer).await?;
        invocation.ended_at = Some(self.now());
        if let Err(error) = &answer
            && leaves_doubt(error, &invocation)
        {
            invocation.failure = Some(failure_of(error));
            return self.doubt(invocation, Some(walking)).await.map(Executed::InDoubt);
        }
        Ok(Executed::Done(Box::new(Done::cleared(cleared, invocation, row, answer, walking))))
    }

    /// What undoes the effect is kept before it. An error here is the answer of the attempt: nothing has happened.
    pub(crate) async fn make_ready(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        failed: &[Check],
    ) -> Result<Result<(), source::Error>, Error> {
        if let Some(reversed) = &invocation.reverses {
            let reversed = self.ledger().find_invocation(&invocation.org, reversed).await?;
            invocation.evidence = reversed.and_then(|reversed| reversed.evidence);
            return Ok(Ok(()));
        }
        Ok(match self.ask_to_prepare(cleared, invocation, failed).await {
            Err(error) => Err(certain(error)),
            Ok(None) if cleared.gated().validated.resolved.action().reversibility == Reversibility::Reversible => {
                let message = format!("`{}` says it can be taken back, and its source keeps nothing to do so with", invocation.action);
                Err(source::Error::Refused { code: "rollback_evidence_missing", message })
            }
            Ok(evidence) => {
                invocation.evidence = evidence;
                Ok(())
            }
        })
    }

    /// A dry run: what would change, asked of the source, with no intent because there is no effect.
    pub(crate) async fn dry_run(&self, preview: Box<PreviewOnly>) -> Result<Walked, Error> {
        let PreviewOnly { gated, decision, policy_slice } = *preview;
        let mut invocation = gated.to_invocation(Status::Running, &decision);
        invocation.started_at = Some(self.now());
        self.inner.boards.decided(&invocation.id, gated.validated.resolved.admitted.rules_version);
        let answer = match gated.validated.resolved.action().preview {
            Preview::Supported => self.ask_for_preview(&gated, &invocation).await,
            // A read, by `validate`: it is not made, and changes nothing.
            Preview::Unsupported => Ok(Output::new(json!({ "changes": [] }))),
        };
        invocation.ended_at = Some(self.now());
        let done = Done::previewed(gated, policy_slice, invocation, answer);
        self.record(self.verify(done).await?).await
    }

    /// Tries until the source answers, or an error is not transient, or the attempts are used up.
    async fn attempt(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        row: &Row,
        mut ready: Result<(), source::Error>,
    ) -> Result<Result<Output, source::Error>, Error> {
        loop {
            let answer = match ready {
                Ok(()) => self.once(cleared, invocation, &[]).await,
                Err(error) => Err(error),
            };
            let Err(error) = &answer else {
                return Ok(answer);
            };
            // A transient error says that nothing was done: only then is another try safe.
            if !error.is_transient() || self.asks_for_too_long(error) || invocation.attempts >= self.attempts_max(invocation) {
                return Ok(answer);
            }
            tokio::time::sleep(self.backoff(invocation.attempts, error)).await;
            if *row == Row::Insert {
                invocation.attempts += 1;
                ready = Ok(());
                continue;
            }
            let mut next = invocation.clone();
            next.attempts += 1;
            ready = self.make_ready(cleared, &mut next, &[]).await?;
            // Without its own intent there is no other try: what the last one answered is the outcome.
            if !self.begin_again(cleared, &next, Some(rules_version(cleared))).await? {
                return Ok(answer);
            }
            *invocation = next;
        }
    }

    /// How often an effect is tried at most: as often as we would, and no more often than its caller wants.
    fn attempts_max(&self, invocation: &Invocation) -> u32 {
        let wanted = invocation.bounds.retries_max.map_or(u32::MAX, |retries| retries.saturating_add(1));
        self.inner.settings.attempts_max.min(wanted)
    }

    /// The effect, once: what was asked for, or its undoing.
    pub(crate) async fn once(&self, cleared: &Cleared, invocation: &Invocation, failed: &[Check]) -> Result<Output, source::Error> {
        match (invocation.intention, &invocation.evidence) {
            (Intention::Effect | Intention::DryRun, _) => self.ask_to_call(cleared, invocation, failed).await,
            (Intention::Revert, Some(evidence)) => self.ask_to_revert(Subject::of(cleared.gated(), invocation), evidence).await,
            (Intention::Revert, None) => {
                let message = "nothing was kept to take it back with".to_owned();
                Err(source::Error::Refused { code: "not_reversible", message })
            }
        }
    }

    /// Writes the intent of a further attempt that can as well not be made. Whether it is written.
    pub(crate) async fn begin_again(&self, cleared: &Cleared, invocation: &Invocation, rules_version: Option<i64>) -> Result<bool, Error> {
        let announced = self.announce_again(&self.announcement(cleared), invocation, rules_version).await?;
        Ok(announced == AnnouncedAgain::Written)
    }

    /// Writes the intent of a further attempt, of what runs or is in doubt.
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
            Err(ledger::Error::Unavailable { .. }) => AnnouncedAgain::NotYet,
            // Another server took this one for gone, and asks what became of it.
            Ok(Begun::Not(status)) if status == invocation.status => AnnouncedAgain::NotYet,
            Ok(Begun::Not(_) | Begun::Missing | Begun::Expired | Begun::KeyTaken(_) | Begun::RulesChanged | Begun::GrantSpent)
            | Err(ledger::Error::Corrupt { .. }) => AnnouncedAgain::Never,
        })
    }

    /// When nobody knows whether it happened, the source may be able to tell.
    pub(crate) async fn look_again(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        answer: Result<Output, source::Error>,
    ) -> Result<Result<Output, source::Error>, Error> {
        let error = match answer {
            Err(error) if leaves_doubt(&error, invocation) => error,
            known => return Ok(known),
        };
        // Taking back what is taken back already changes nothing: what cannot be seen to be done is asked for once more.
        if invocation.intention == Intention::Revert {
            return Ok(self.once(cleared, invocation, &[]).await.map_err(|_| error));
        }
        let found = self.find_out(Subject::of(cleared.gated(), invocation), &self.announcement(cleared)).await?;
        if let Some(tried) = found.tried {
            *invocation = *tried;
        }
        Ok(match found.reconciled {
            Ok(Reconciled::Happened(output)) => Ok(output),
            Ok(Reconciled::DidNot) => {
                Err(source::Error::Failed { code: error.code(), message: format!("{error}; it was looked for, and did not happen") })
            }
            Ok(Reconciled::Unknown | Reconciled::ByAskingAgain) | Err(_) => Err(error),
        })
    }

    /// Whether the row knows of this attempt: then its intent was written after all. Waits for a store that is away: the receipt
    /// must count every intent there is, and could not be written without the store anyway.
    /// `None`: it did not come back.
    async fn is_at_attempt(&self, invocation: &Invocation) -> Option<bool> {
        let asked = async {
            loop {
                match self.ledger().find_invocation(&invocation.org, &invocation.id).await {
                    Ok(row) => return row.is_some_and(|row| row.attempts == invocation.attempts),
                    Err(_away) => tokio::time::sleep(Duration::from_secs(1)).await,
                }
            }
        };
        // By the clock, not by the number of tries: a store that is slow to fail must not keep it running for longer than it may be.
        tokio::time::timeout(Duration::from_secs(RECORD_RETRY_SECONDS), asked).await.ok()
    }

    /// Writes the intent; from here on a crash leaves the effect `in_doubt`.
    async fn begin(&self, cleared: &Cleared, invocation: &mut Invocation) -> Result<Started, Error> {
        let row = if cleared.approval().is_some() { Row::From(Status::Approved) } else { Row::Insert };
        if row != Row::Insert {
            self.carry_answer(invocation).await?;
        }
        let expires_at = invocation.created_at.plus_seconds(crate::replay::key_seconds(invocation.intention));
        let instead_of = cleared.gated().validated.resolved.admitted.instead_of.clone();
        let key = invocation.idempotency_key.clone().filter(|_| row == Row::Insert);
        let reservation = key.map(|key| NewReservation { key, expires_at, instead_of });
        let begin = Begin {
            invocation: invocation.clone(),
            row,
            intent: self.intent(&self.announcement(cleared), invocation)?,
            sealed_params: self.kept_params(cleared, row)?,
            reservation,
            rules_version: rules_version(cleared),
            beyond: self.beyond(cleared, invocation),
        };
        let void = |conflict| Started::Not(Executed::Void(Box::new(Void { invocation: invocation.clone(), conflict })));
        let begun = self.ledger().begin(begin).await;
        if matches!(begun, Err(ledger::Error::CommitUnknown { .. })) {
            self.abandon(cleared, invocation.clone());
        }
        Ok(match begun? {
            Begun::Started => Started::Row(Row::Begun),
            Begun::RulesChanged | Begun::GrantSpent => Started::Undecided,
            Begun::KeyTaken(reservation) => Started::Not(Executed::Elsewhere(Box::new(Taken::by(invocation, reservation)))),
            Begun::Expired => void(Conflict::Expired),
            Begun::Not(_) | Begun::Missing => void(Conflict::Consumed),
        })
    }

    /// The intent may have been written, and nothing was sent: the row must not stay `running`.
    fn abandon(&self, cleared: &Cleared, invocation: Invocation) {
        let pipeline = self.clone();
        let (policy_slice, approval) = (cleared.policy_slice(), approval_body(cleared));
        let validated = &cleared.gated().validated;
        let (profile, idempotency) = (validated.resolved.action().profile.as_str().to_owned(), validated.idempotency_digest());
        let walking = Walking::begin(self, &invocation.id);
        self.spawn(async move {
            let _walking = walking;
            let message = "the store went away while the intent was written; nothing was sent".to_owned();
            let failure = Failure { code: "store_unavailable".into(), message };
            let mut ending = Ending::unexecuted(invocation, Status::Failed, None, failure, Row::From(Status::Running));
            ending.return_grant();
            (ending.policy_slice, ending.profile) = (policy_slice, profile);
            (ending.approval, ending.idempotency) = (approval, idempotency);
            if let Err(error) = pipeline.record_ending(ending).await {
                tracing::debug!(%error, "an intent that was perhaps written needs no end");
            }
        });
    }

    /// What the held row knows and this walk does not: the answer, what it is bound to, and whether it was taken up again.
    async fn carry_answer(&self, invocation: &mut Invocation) -> Result<(), Error> {
        let held = self.ledger().find_invocation(&invocation.org, &invocation.id).await?;
        let held = held.ok_or_else(|| Error::UnknownInvocation { invocation: invocation.id.to_string() })?;
        invocation.answer = held.answer;
        invocation.approvals = held.approvals;
        invocation.edit = held.edit;
        invocation.binding = held.binding;
        invocation.taken_up_at = held.taken_up_at;
        Ok(())
    }

    /// What the approvers said it should do beyond this one call. It takes all of them to say the same.
    fn beyond(&self, cleared: &Cleared, invocation: &Invocation) -> Option<BeyondOnce> {
        cleared.approval()?;
        let last = invocation.approvals.last()?;
        if invocation.approvals.iter().any(|approval| approval.beyond != last.beyond) {
            return None;
        }
        let resolved = &cleared.gated().validated.resolved;
        match &last.beyond {
            Beyond::Once => None,
            Beyond::Always => Some(BeyondOnce::Always { automation: resolved.admitted.session.automation.clone(), by: last.by.clone() }),
            Beyond::Grant(offer) => Some(BeyondOnce::Grant {
                id: GrantId::new(self.now(), self.random_bytes()),
                terms: Box::new(GrantTerms {
                    scope: offer.scope.clone(),
                    space: Some(invocation.space.clone()).filter(|_| offer.scope != GrantScope::Org),
                    covers: Covers::only(&invocation.action),
                    condition: None,
                    calls_max: offer.calls_max,
                    definition: Some(GrantedDefinition { structural: invocation.digests.structural, textual: invocation.digests.textual }),
                }),
                lifetime_seconds: offer.lifetime_seconds,
                by: last.by.clone(),
            }),
        }
    }

    /// The params, kept sealed until it ends, so that a crash leaves enough to find out what happened.
    fn kept_params(&self, cleared: &Cleared, row: Row) -> Result<Option<Vec<u8>>, Error> {
        let is_write = cleared.gated().validated.resolved.tier().class() != Class::Read;
        if row == Row::Insert && is_write { seal_params(cleared.gated()).map(Some) } else { Ok(None) }
    }

    fn announcement(&self, cleared: &Cleared) -> Announcement {
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
            space: invocation.space.clone(),
            action: invocation.action.clone(),
            tier: invocation.tier,
            definition: DefinitionDigests { structural: invocation.digests.structural, textual: invocation.digests.textual },
            params: invocation.digests.params,
            raw: invocation.digests.raw,
            decision: invocation.decision.clone(),
            approval: announcement.approval.clone(),
            grant: announcement.grant.clone(),
            idempotency_key: announcement.idempotency,
            evidence: invocation.evidence.as_ref().map(|evidence| evidence_digest(&*announcement.key, evidence)),
            profile: announcement.profile.clone(),
            purpose: invocation.purpose,
            trace_id: invocation.trace_id.clone(),
        };
        let body = body.to_canonical().map_err(|error| Error::Internal { message: error.to_string() })?;
        Ok(EntryDraft { id: EntryId::Intent(id), body })
    }

    pub(crate) async fn doubt(&self, mut invocation: Invocation, walking: Option<Walking>) -> Result<Box<Invocation>, Error> {
        invocation.status = Status::InDoubt;
        invocation.ended_at = None;
        for _ in 0..3 {
            match self.try_doubt(&invocation).await {
                Err(Error::Store(error)) if is_passing(&error) => tokio::time::sleep(Duration::from_millis(100)).await,
                Ok(()) => return Ok(Box::new(invocation)),
                Err(error) => return Err(error),
            }
        }
        // The effect may have happened and nobody can be told so durably yet: the caller must not try again.
        let id = invocation.id.clone();
        self.doubt_later(invocation, walking);
        Err(Error::Unrecorded { invocation: id })
    }

    fn doubt_later(&self, invocation: Invocation, walking: Option<Walking>) {
        let pipeline = self.clone();
        self.spawn(async move {
            let _walking = walking;
            for _ in 0..RECORD_RETRY_SECONDS {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match pipeline.try_doubt(&invocation).await {
                    Err(Error::Store(error)) if is_passing(&error) => {}
                    // Its batch waits for it.
                    _ => return pipeline.advance_of(&invocation).await,
                }
            }
        });
    }

    async fn try_doubt(&self, invocation: &Invocation) -> Result<(), Error> {
        let event = self.event(invocation, Status::InDoubt);
        match self.ledger().doubt(invocation.clone(), event).await? {
            // A repeat after an uncertain commit finds the work done.
            Finished::Recorded { .. } | Finished::Not(Status::InDoubt) => {}
            // Another server took this one for gone: it doubts it, too, or finds out more.
            Finished::Not(Status::Running) => return Ok(()),
            Finished::Not(status) => {
                return Err(Error::Internal { message: format!("`{}` became `{status}` while it ran", invocation.id) });
            }
            Finished::RulesChanged | Finished::Missing => {
                return Err(Error::Internal { message: format!("`{}` vanished while it ran", invocation.id) });
            }
        }
        self.count(invocation);
        self.inner.waiters.wake(&invocation.id);
        Ok(())
    }

    /// Whether the source wants to be left alone for longer than anybody would wait: then it is.
    pub(crate) fn asks_for_too_long(&self, error: &source::Error) -> bool {
        matches!(error, source::Error::Busy { retry_after_ms: Some(asked_ms), .. } if *asked_ms > self.inner.settings.retry_cap_ms)
    }

    /// Full jitter: a random time up to a bound that doubles, and at least what the source asked for.
    pub(crate) fn backoff(&self, attempts: u32, error: &source::Error) -> Duration {
        let settings = &self.inner.settings;
        let bound_ms = settings.retry_base_ms.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(settings.retry_cap_ms);
        let drawn = u64::from_be_bytes(self.random_bytes()) % bound_ms.max(1);
        let asked_ms = match error {
            source::Error::Busy { retry_after_ms, .. } => retry_after_ms.unwrap_or(0),
            source::Error::Unreachable { .. }
            | source::Error::NoTurn { .. }
            | source::Error::TimedOut { .. }
            | source::Error::Broken { .. }
            | source::Error::Refused { .. }
            | source::Error::Failed { .. }
            | source::Error::WorkspaceElsewhere
            | source::Error::PreviewUnsupported { .. } => 0,
        };
        Duration::from_millis(drawn.max(asked_ms))
    }
}

/// What became of the intent of a further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnnouncedAgain {
    Written,
    /// The store is away, or the call is another server's for the moment: the same intent may be written later.
    NotYet,
    Never,
}

/// What the intents of one call all say.
pub(crate) struct Announcement {
    pub(crate) approval: Option<ApprovalBody>,
    pub(crate) grant: Option<GrantId>,
    pub(crate) idempotency: Option<Digest>,
    pub(crate) profile: String,
    pub(crate) key: Arc<dyn SpaceKey>,
}

impl Done {
    fn cleared(cleared: Cleared, invocation: Invocation, row: Row, answer: Result<Output, source::Error>, walking: Walking) -> Self {
        let validated = &cleared.gated().validated;
        Self {
            source: Arc::clone(&validated.resolved.source),
            definition: Arc::clone(&validated.resolved.definition),
            invocation,
            row,
            answer,
            policy_slice: cleared.policy_slice(),
            approval: approval_body(&cleared),
            key: Arc::clone(&validated.key),
            idempotency: validated.idempotency_digest(),
            origin: Origin::Cleared(Box::new(cleared)),
            walking: Some(walking),
        }
    }

    fn previewed(gated: Gated, policy_slice: Digest, invocation: Invocation, answer: Result<Output, source::Error>) -> Self {
        Self {
            source: Arc::clone(&gated.validated.resolved.source),
            definition: Arc::clone(&gated.validated.resolved.definition),
            invocation,
            row: Row::Insert,
            answer,
            policy_slice,
            approval: None,
            key: Arc::clone(&gated.validated.key),
            idempotency: None,
            origin: Origin::Previewed(Box::new(gated)),
            walking: None,
        }
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        let params = match &self.origin {
            Origin::Cleared(cleared) => &cleared.gated().validated.resolved.admitted.request.params,
            Origin::Previewed(gated) => &gated.validated.resolved.admitted.request.params,
            Origin::LeftBehind { params } => params,
        };
        Subject { source: &*self.source, definition: &self.definition, params, invocation: &self.invocation }
    }

    pub(crate) fn announcement(&self) -> Announcement {
        Announcement {
            approval: self.approval.clone(),
            grant: self.invocation.grant.clone(),
            idempotency: self.idempotency,
            profile: self.definition.action.profile.as_str().to_owned(),
            key: Arc::clone(&self.key),
        }
    }
}

impl Origin {
    /// What goes back to be decided again, where nothing was announced.
    pub(crate) fn undecided(self) -> Option<Box<Admitted>> {
        match self {
            Self::Cleared(cleared) => Some(Box::new(cleared.undecided())),
            Self::Previewed(gated) => Some(Box::new(gated.undecided())),
            Self::LeftBehind { .. } => None,
        }
    }
}

/// Whether the effect may have happened, and matters.
pub(crate) fn leaves_doubt(error: &source::Error, invocation: &Invocation) -> bool {
    error.after() == AfterError::Unknown && invocation.tier.class() != Class::Read
}

/// Preparing changes nothing, so whatever stops it leaves no doubt.
fn certain(error: source::Error) -> source::Error {
    match error.after() {
        AfterError::NoEffect => error,
        AfterError::Unknown => {
            source::Error::Failed { code: error.code(), message: format!("{}; nothing was changed", error.without_conclusion()) }
        }
    }
}

pub(crate) fn failure_of(error: &source::Error) -> Failure {
    Failure { code: error.code().into(), message: policy::redact_text(&error.to_string()) }
}

pub(crate) fn evidence_digest(key: &dyn SpaceKey, evidence: &Value) -> Digest {
    key.digest("evidence", evidence.to_string().as_bytes())
}

fn approval_body(cleared: &Cleared) -> Option<ApprovalBody> {
    let approval = cleared.approval()?;
    Some(ApprovalBody { approvers: approval.approvers().to_vec(), binding: approval.binding() })
}

enum Started {
    Row(Row),
    Not(Executed),
    Undecided,
}

/// Reads that spend nothing can simply be made again: they need no intent. Everything else does.
fn needs_intent(cleared: &Cleared) -> bool {
    let validated = &cleared.gated().validated;
    validated.resolved.tier().class() != Class::Read
        || cleared.approval().is_some()
        || cleared.grant().is_some()
        || validated.idempotency_key.is_some()
}

pub(crate) const fn rules_version(cleared: &Cleared) -> i64 {
    cleared.gated().validated.resolved.admitted.rules_version
}

/// Marks an invocation as being walked in this process, for as long as it is.
pub(crate) struct Walking {
    pipeline: Pipeline,
    id: InvocationId,
}

impl Walking {
    pub(crate) fn begin(pipeline: &Pipeline, id: &InvocationId) -> Self {
        *pipeline.inner.walking.lock().entry(id.clone()).or_default() += 1;
        Self { pipeline: pipeline.clone(), id: id.clone() }
    }

    /// The same, unless it is being walked already.
    pub(crate) fn begin_alone(pipeline: &Pipeline, id: &InvocationId) -> Option<Self> {
        match pipeline.inner.walking.lock().entry(id.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(nobody) => {
                nobody.insert(1);
                Some(Self { pipeline: pipeline.clone(), id: id.clone() })
            }
        }
    }
}

impl Drop for Walking {
    fn drop(&mut self) {
        if let Entry::Occupied(mut walking) = self.pipeline.inner.walking.lock().entry(self.id.clone()) {
            *walking.get_mut() -= 1;
            if *walking.get() == 0 {
                walking.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_broke_off_while_it_was_prepared_is_said_to_have_changed_nothing_and_not_otherwise() {
        let source_id = || "kit".to_owned();
        let late = source::Error::TimedOut { source_id: source_id(), timeout_ms: 7 };
        let broken = source::Error::Broken { source_id: source_id(), message: "gone".to_owned() };
        for (error, code, message) in [
            (late, "source_timed_out", "source `kit` did not answer within 7 ms; nothing was changed"),
            (broken, "source_broke", "the connection to source `kit` broke after the call was sent: gone; nothing was changed"),
        ] {
            let certain = certain(error);
            assert_eq!((certain.code(), certain.to_string().as_str(), certain.after()), (code, message, AfterError::NoEffect));
        }
    }
}
