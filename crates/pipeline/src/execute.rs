//! Stage 8: the effect. Intent first, durably; then the source, bounded in time; then what is known of the outcome.
//! The only file that calls a source.

use crate::admit::Admitted;
use crate::catalogue::Definition;
use crate::decide::{Cleared, PreviewOnly};
use crate::gate::Gated;
use crate::hold::Void;
use crate::record::{Ending, is_passing};
use crate::replay::Taken;
use crate::stage::Stage;
use crate::{Conflict, Error, Pipeline, Walked};
use countersign_core::action::Class;
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition};
use countersign_core::invocation::{Beyond, Failure, Intention};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::{Begin, Begun, BeyondOnce, EntryDraft, EntryId, Finished, NewReservation, Row};
use countersign_core::limits::{CALL_TIMEOUT_MS, IDEMPOTENCY_SECONDS, RECORD_RETRY_SECONDS};
use countersign_core::source::{self, AfterError, CallContext, Output};
use countersign_core::{Digest, GrantId, IntentId, Invocation, InvocationId, Status, ledger};
use futures_util::FutureExt;
use receipt::body::{ApprovalBody, DefinitionDigests, IntentBody};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Executed {
    /// The source answered, or is known not to have done anything.
    Done(Box<Done>),
    /// It may have happened.
    InDoubt(Box<Invocation>),
    /// Another call under the same idempotency key was first.
    Elsewhere(Taken),
    /// The approval could not be used any more.
    Void(Box<Void>),
    /// A rule changed, or the grant was used up: nothing has happened, and it is decided again.
    RulesChanged(Box<Admitted>),
}

/// A call that the source answered, one way or the other.
pub(crate) struct Done {
    pub(crate) definition: Arc<Definition>,
    pub(crate) invocation: Invocation,
    pub(crate) row: Row,
    pub(crate) answer: Result<Output, source::Error>,
    pub(crate) policy_slice: Digest,
    pub(crate) approval: Option<ApprovalBody>,
    pub(crate) key: Arc<dyn SpaceKey>,
    pub(crate) idempotency: Option<Digest>,
    /// What it was made of, where it had no intent: it is decided again if the rules change before it is recorded.
    pub(crate) unbegun: Option<Box<Admitted>>,
    /// Recovery leaves it alone until its outcome is recorded.
    pub(crate) walking: Option<Walking>,
}

/// What a source is asked for.
#[derive(Clone, Copy)]
enum Ask {
    Call,
    Preview,
}

impl Pipeline {
    pub(crate) async fn execute(&self, cleared: Cleared) -> Result<Executed, Error> {
        let mut invocation = cleared.gated().to_invocation(Status::Running, cleared.decision());
        invocation.attempts = 1;
        invocation.started_at = Some(self.now());
        invocation.grant = cleared.grant().cloned();
        self.label_before(cleared.gated()).await?;
        let row = if needs_intent(&cleared) {
            match self.begin(&cleared, &mut invocation).await? {
                Started::Row(row) => row,
                Started::Not(executed) => return Ok(executed),
                Started::Undecided => return Ok(Executed::RulesChanged(Box::new(cleared.undecided()))),
            }
        } else {
            Row::Insert
        };
        let walking = Walking::begin(self, &invocation.id);
        let answer = self.attempt(&cleared, &mut invocation, &row).await?;
        invocation.ended_at = Some(self.now());
        if let Err(error) = &answer
            && error.after() == AfterError::Unknown
            && invocation.tier.class() != Class::Read
        {
            invocation.failure = Some(Failure { code: error.code().into(), message: policy::redact_text(&error.to_string()) });
            return self.doubt(invocation, walking).await;
        }
        Ok(Executed::Done(Box::new(Done::new(cleared, invocation, row, answer, walking))))
    }

    /// A dry run: what would change, asked of the source, with no intent because there is no effect.
    pub(crate) async fn dry_run(&self, preview: Box<PreviewOnly>) -> Result<Walked, Error> {
        let PreviewOnly { gated, decision, policy_slice } = *preview;
        let mut invocation = gated.to_invocation(Status::Running, &decision);
        invocation.started_at = Some(self.now());
        let answer = self.ask(&gated, 1, Ask::Preview).await;
        invocation.ended_at = Some(self.now());
        let done = Done::previewed(gated, policy_slice, invocation, answer);
        self.record(self.verify(done)).await
    }

    /// Tries until the source answers, or an error is not transient, or the attempts are used up.
    async fn attempt(&self, cleared: &Cleared, invocation: &mut Invocation, row: &Row) -> Result<Result<Output, source::Error>, Error> {
        loop {
            let answer = self.ask(cleared.gated(), invocation.attempts, Ask::Call).await;
            let Err(error) = &answer else {
                return Ok(answer);
            };
            // A transient error says that nothing was done: only then is another try safe.
            if !error.is_transient() || invocation.attempts >= self.inner.settings.attempts_max {
                return Ok(answer);
            }
            tokio::time::sleep(self.backoff(invocation.attempts, error)).await;
            invocation.attempts += 1;
            if *row != Row::Insert {
                let intent = self.intent(cleared, invocation)?;
                let begun = self.ledger().begin_again(invocation.clone(), intent, rules_version(cleared)).await;
                match begun {
                    Ok(Begun::Started) => {}
                    Err(ledger::Error::CommitUnknown { .. }) if self.is_at_attempt(invocation).await => {}
                    // Without its own intent there is no other try: what the last one answered is the outcome.
                    Ok(Begun::Not(_) | Begun::Missing | Begun::Expired | Begun::KeyTaken(_) | Begun::RulesChanged | Begun::GrantSpent)
                    | Err(_) => {
                        invocation.attempts -= 1;
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// Whether the row knows of this attempt: then its intent was written after all. Waits for a store that is away: the receipt
    /// must count every intent there is, and could not be written without the store anyway.
    async fn is_at_attempt(&self, invocation: &Invocation) -> bool {
        for _ in 0..RECORD_RETRY_SECONDS {
            match self.ledger().find_invocation(&invocation.org, &invocation.id).await {
                Ok(row) => return row.is_some_and(|row| row.attempts == invocation.attempts),
                Err(_away) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
        false
    }

    /// One call of the source: a panic there is a broken source, not a lost invocation.
    async fn ask(&self, gated: &Gated, attempt: u32, ask: Ask) -> Result<Output, source::Error> {
        let resolved = &gated.validated.resolved;
        let admitted = &resolved.admitted;
        let timeout_ms = resolved.action().timeout_ms.clamp(1, CALL_TIMEOUT_MS);
        let context = CallContext {
            org: admitted.session.org.clone(),
            space: admitted.session.space.clone(),
            session: admitted.session.id.clone(),
            invocation: admitted.id.clone(),
            attempt,
            timeout_ms,
            trace_id: admitted.request.trace_id.clone(),
        };
        let (source, action, params) = (&resolved.source, &resolved.action().id, &admitted.request.params);
        let source_id = || action.source().to_owned();
        let _timed = self.timed(Stage::Source);
        let asked = async {
            match ask {
                Ask::Call => source.call(&context, action, params).await,
                Ask::Preview => source.preview(&context, action, params).await,
            }
        };
        match tokio::time::timeout(Duration::from_millis(timeout_ms), AssertUnwindSafe(asked).catch_unwind()).await {
            Ok(Ok(answer)) => answer,
            // What it said is in the server's log; it may quote params.
            Ok(Err(_panic)) => Err(source::Error::Broken { source_id: source_id(), message: "it stopped working, by a bug".to_owned() }),
            Err(_) => Err(source::Error::TimedOut { source_id: source_id(), timeout_ms }),
        }
    }

    /// Writes the intent; from here on a crash leaves the effect `in_doubt`.
    async fn begin(&self, cleared: &Cleared, invocation: &mut Invocation) -> Result<Started, Error> {
        let row = if cleared.approval().is_some() { Row::From(Status::Approved) } else { Row::Insert };
        if row != Row::Insert {
            self.carry_answer(invocation).await?;
        }
        let expires_at = invocation.created_at.plus_seconds(IDEMPOTENCY_SECONDS);
        let reservation = invocation.idempotency_key.clone().filter(|_| row == Row::Insert).map(|key| NewReservation { key, expires_at });
        let begin = Begin {
            invocation: invocation.clone(),
            row,
            intent: self.intent(cleared, invocation)?,
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
            Begun::KeyTaken(reservation) => Started::Not(Executed::Elsewhere(Taken::by(invocation, reservation))),
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
        self.inner.tasks.spawn(async move {
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

    /// What the held row knows and this walk does not: the answer and what it is bound to.
    async fn carry_answer(&self, invocation: &mut Invocation) -> Result<(), Error> {
        let held = self.ledger().find_invocation(&invocation.org, &invocation.id).await?;
        let held = held.ok_or_else(|| Error::UnknownInvocation { invocation: invocation.id.to_string() })?;
        invocation.answer = held.answer;
        invocation.approvals = held.approvals;
        invocation.edit = held.edit;
        invocation.binding = held.binding;
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

    fn intent(&self, cleared: &Cleared, invocation: &Invocation) -> Result<EntryDraft, Error> {
        let id = IntentId::new(self.now(), self.random_bytes());
        let body = IntentBody {
            intent_id: id.clone(),
            invocation_id: invocation.id.clone(),
            attempt: invocation.attempts,
            principal: invocation.principal.clone(),
            space: invocation.space.clone(),
            action: invocation.action.clone(),
            tier: invocation.tier,
            definition: DefinitionDigests { structural: invocation.digests.structural, textual: invocation.digests.textual },
            params: invocation.digests.params,
            raw: invocation.digests.raw,
            decision: invocation.decision.clone(),
            approval: approval_body(cleared),
            grant: cleared.grant().cloned(),
            idempotency_key: cleared.gated().validated.idempotency_digest(),
            profile: cleared.gated().validated.resolved.action().profile.as_str().to_owned(),
            trace_id: invocation.trace_id.clone(),
        };
        let body = body.to_canonical().map_err(|error| Error::Internal { message: error.to_string() })?;
        Ok(EntryDraft { id: EntryId::Intent(id), body })
    }

    async fn doubt(&self, mut invocation: Invocation, walking: Walking) -> Result<Executed, Error> {
        invocation.status = Status::InDoubt;
        invocation.ended_at = None;
        for _ in 0..3 {
            match self.try_doubt(&invocation).await {
                Err(Error::Store(error)) if is_passing(&error) => tokio::time::sleep(Duration::from_millis(100)).await,
                Ok(()) => return Ok(Executed::InDoubt(Box::new(invocation))),
                Err(error) => return Err(error),
            }
        }
        // The effect may have happened and nobody can be told so durably yet: the caller must not try again.
        let id = invocation.id.clone();
        let pipeline = self.clone();
        self.inner.tasks.spawn(async move {
            let _walking = walking;
            for _ in 0..RECORD_RETRY_SECONDS {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match pipeline.try_doubt(&invocation).await {
                    Err(Error::Store(error)) if is_passing(&error) => {}
                    _ => return,
                }
            }
        });
        Err(Error::Unrecorded { invocation: id })
    }

    async fn try_doubt(&self, invocation: &Invocation) -> Result<(), Error> {
        let event = self.event(invocation, Status::InDoubt);
        match self.ledger().doubt(invocation.clone(), event).await? {
            // A repeat after an uncertain commit finds the work done.
            Finished::Recorded { .. } | Finished::Not(Status::InDoubt) => {}
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

    /// Full jitter: a random time up to a bound that doubles, and at least what the source asked for.
    fn backoff(&self, attempts: u32, error: &source::Error) -> Duration {
        let settings = &self.inner.settings;
        let bound_ms = settings.retry_base_ms.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(settings.retry_cap_ms);
        let drawn = u64::from_be_bytes(self.random_bytes()) % bound_ms.max(1);
        let asked_ms = match error {
            source::Error::Busy { retry_after_ms, .. } => retry_after_ms.unwrap_or(0).min(settings.retry_cap_ms),
            source::Error::Unreachable { .. }
            | source::Error::TimedOut { .. }
            | source::Error::Broken { .. }
            | source::Error::Refused { .. }
            | source::Error::Failed { .. }
            | source::Error::PreviewUnsupported { .. } => 0,
        };
        Duration::from_millis(drawn.max(asked_ms))
    }
}

impl Done {
    fn new(cleared: Cleared, invocation: Invocation, row: Row, answer: Result<Output, source::Error>, walking: Walking) -> Self {
        let validated = &cleared.gated().validated;
        Self {
            definition: Arc::clone(&validated.resolved.definition),
            invocation,
            row,
            answer,
            policy_slice: cleared.policy_slice(),
            approval: approval_body(&cleared),
            key: Arc::clone(&validated.key),
            idempotency: validated.idempotency_digest(),
            unbegun: (row == Row::Insert).then(|| Box::new(cleared.undecided())),
            walking: Some(walking),
        }
    }

    fn previewed(gated: Gated, policy_slice: Digest, invocation: Invocation, answer: Result<Output, source::Error>) -> Self {
        Self {
            definition: Arc::clone(&gated.validated.resolved.definition),
            invocation,
            row: Row::Insert,
            answer,
            policy_slice,
            approval: None,
            key: Arc::clone(&gated.validated.key),
            idempotency: None,
            unbegun: Some(Box::new(gated.undecided())),
            walking: None,
        }
    }

    /// What the result schema speaks about: the result of an effect. A preview has a shape of its own.
    pub(crate) fn checked_value(&self) -> Option<&Value> {
        match self.invocation.intention {
            Intention::Effect => self.answer.as_ref().ok().map(|output| &output.value),
            Intention::DryRun => None,
        }
    }
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
    validated.resolved.action().tier.class() != Class::Read
        || cleared.approval().is_some()
        || cleared.grant().is_some()
        || validated.idempotency_key.is_some()
}

const fn rules_version(cleared: &Cleared) -> i64 {
    cleared.gated().validated.resolved.admitted.rules_version
}

/// Marks an invocation as being walked in this process, for as long as it is.
pub(crate) struct Walking {
    pipeline: Pipeline,
    id: InvocationId,
}

impl Walking {
    fn begin(pipeline: &Pipeline, id: &InvocationId) -> Self {
        pipeline.inner.walking.lock().insert(id.clone());
        Self { pipeline: pipeline.clone(), id: id.clone() }
    }
}

impl Drop for Walking {
    fn drop(&mut self) {
        self.pipeline.inner.walking.lock().remove(&self.id);
    }
}
