//! Several calls requested together. Each part is an invocation with its own gates, decision and receipt; the batch defines their order,
//! and what the failure of one part means for the others.
//!
//! The progress of a batch is read from its parts and never stored beside them, so a batch that is continued after a crash, or after a
//! person's answer, goes on with the rest of the same list.

mod parts;
mod revert;

use crate::error::Error;
use crate::limits::{BATCH_PARTS_MAX, IDEMPOTENCY_KEY_CHARS_MAX, REASON_CHARS_MAX};
use crate::pipeline::Pipeline;
use crate::walk::ending::is_away;
use crate::walk::span;
use crate::walk::weight::Weight;
use countersign_core::action::{Class, Reversibility};
use countersign_core::batch::{BatchStatus, Part, PartRequest};
use countersign_core::invocation::Intention;
use countersign_core::ledger::{self, EndBatch, EventDraft, NewBatch, OpenedBatch};
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::part_of::BatchMode;
use countersign_core::{
    ActionId, Batch, BatchId, EventId, Invocation, InvocationId, OrgId, Principal, ReceiptId, Session, SessionId, Status, json,
};
use durable::{Claim, OtherClaim};
use receipt::body::{BatchBody, Body as _};
use serde_json::{Value, json};
use std::time::Duration;
use tracing::Instrument as _;

/// Several actions, to be performed together.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    pub principal: Principal,
    pub session: SessionId,
    pub mode: BatchMode,
    /// Applies to every part: perform the effects, or make a dry run.
    pub intention: Intention,
    pub parts: Vec<PartRequest>,
    pub idempotency_key: Option<String>,
    pub reason: Option<String>,
    pub trace_id: String,
}

/// The current state of a batch, with the results of its parts so far: redacted, and complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Batched {
    pub batch: Batch,
    /// One for each part. `None` also if the result was not seen here; then the invocation has it.
    pub results: Vec<Option<Value>>,
}

impl Pipeline {
    /// Performs several actions. Each part ends in a receipt, and so does the batch; or the batch waits for a person.
    pub async fn batch(&self, request: BatchRequest) -> Result<Batched, Error> {
        let is_heavy = request.parts.iter().any(|part| Weight::of(&part.call.params) == Weight::Heavy);
        let weight = if is_heavy { Weight::Heavy } else { Weight::Light };
        let pipeline = self.clone();
        self.walk.survive(weight.run(Box::pin(async move { pipeline.open_batch(request).await }))).await
    }

    async fn open_batch(&self, request: BatchRequest) -> Result<Batched, Error> {
        let session = self.walk.session_for(&request.principal, &request.session, Intention::Effect).await?;
        let actions = self.checked_parts(&session, &request).await?;
        let created_at = self.walk.now();
        let id = BatchId::new(created_at, self.walk.random_bytes());
        let key = self.walk.inner.keyring.space_key(&session.org, &session.space).await?;
        let asked = json::canonical(&json!({ "mode": request.mode, "intention": request.intention, "parts": request.parts }));
        let asked = asked.map_err(|error| refused(None, error.to_string()))?;
        let part = |action| Part {
            action,
            invocation: InvocationId::new(created_at, self.walk.random_bytes()),
            status: None,
            receipt: None,
            effect: Default::default(),
            failure: None,
            revert: None,
        };
        let batch = Batch {
            org: session.org,
            space: session.space,
            session: session.id,
            principal: request.principal.id.clone(),
            device: request.principal.device.clone(),
            mode: request.mode,
            intention: request.intention,
            status: BatchStatus::Running,
            parts: actions.into_iter().map(part).collect(),
            asked: false,
            reason: request.reason.as_deref().map(policy::redact_text),
            idempotency_key: request.idempotency_key,
            raw: key.digest("batch", asked.as_bytes()),
            created_at,
            ended_at: None,
            receipt: None,
            trace_id: request.trace_id,
            version: 0,
            touched_at: created_at,
            id,
        };
        let sealed_parts = key.seal(&parts::context_of(&batch.id), parts::to_text(&request.parts)?.as_bytes());
        let (org, id, raw) = (batch.org.clone(), batch.id.clone(), batch.raw);
        // The id is new, so no other walk can have claimed it.
        let walking = self.batches.claim(&batch.id);
        let opened = self.ledger().open_batch(NewBatch { batch, sealed_parts }).await;
        if let Err(ledger::Error::CommitUnknown { .. }) = opened {
            return Err(Error::BatchUnrecorded { batch: id });
        }
        match opened? {
            OpenedBatch::New(batch) => {
                self.walk.fault("batch.opened");
                let mut results = vec![None; batch.parts.len()];
                let ran = self.run_batch(batch, &request.principal, &request.parts, &mut results).await;
                drop(walking);
                let batch = match ran {
                    // Another server considered this one gone and runs the batch, or the sweep goes on with it soon.
                    Err(Error::BatchTaken { .. } | Error::IdempotencyInFlight { .. }) => {
                        let limit = Duration::from_millis(self.walk.inner.settings.key_wait_ms);
                        self.watch_batch(&org, &id, limit).await.ok().flatten().ok_or(Error::BatchUnrecorded { batch: id })
                    }
                    // The batch is stored: a store that is away now says nothing about its effects.
                    ran if is_away(&ran) || matches!(ran, Err(Error::Unrecorded { .. })) => Err(Error::BatchUnrecorded { batch: id }),
                    ran => ran,
                };
                Ok(Batched { batch: batch?, results })
            }
            OpenedBatch::Earlier(batch) if batch.raw == raw => Ok(Batched { results: vec![None; batch.parts.len()], batch }),
            OpenedBatch::Earlier(batch) => Err(Error::BatchKeyTaken { batch: batch.id }),
        }
    }

    /// Refuses a batch that makes no sense as a whole, before anything is stored.
    async fn checked_parts(&self, session: &Session, request: &BatchRequest) -> Result<Vec<ActionId>, Error> {
        if request.parts.is_empty() || request.parts.len() > BATCH_PARTS_MAX {
            return Err(refused(None, format!("it must have 1 to {BATCH_PARTS_MAX} parts, and has {}", request.parts.len())));
        }
        if request.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX || reason.contains('\0')) {
            return Err(refused(None, format!("`reason` is longer than {REASON_CHARS_MAX} characters, or holds U+0000")));
        }
        let unfit = |key: &String| key.is_empty() || key.chars().count() > IDEMPOTENCY_KEY_CHARS_MAX || key.contains('\0');
        if request.idempotency_key.as_ref().is_some_and(unfit) {
            return Err(refused(None, format!("`idempotency_key` must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} characters")));
        }
        let mut actions = Vec::with_capacity(request.parts.len());
        for (index, part) in request.parts.iter().enumerate() {
            let shown: String = part.action.chars().take(160).collect();
            let action = ActionId::parse(&part.action).map_err(|_| refused(Some(index), format!("`{shown}` is not an action")))?;
            let is_last = index + 1 == request.parts.len();
            if request.mode == BatchMode::AllOrNothing && !is_last && !self.can_be_reverted(session, &action, part).await? {
                return Err(Error::NotLast { part: index, action });
            }
            actions.push(action);
        }
        Ok(actions)
    }

    async fn can_be_reverted(&self, session: &Session, action: &ActionId, part: &PartRequest) -> Result<bool, Error> {
        let found = self.walk.inner.catalogue.find(session, action).await;
        let found = found.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        // An action that does not exist changes nothing; its part will fail and say so.
        Ok(found.is_none_or(|(_, definition)| {
            let action = &definition.action;
            let tier = part.call.bounds.tier.map_or(action.tier, |tier| tier.max(action.tier));
            tier.class() == Class::Read || action.reversibility == Reversibility::Reversible
        }))
    }

    /// Continues a pending batch, if its parts permit it. If another walk in this process has claimed it, returns that claim.
    async fn advance_batch(&self, org: &OrgId, id: &BatchId) -> Result<Option<OtherClaim>, Error> {
        let before = self.batches.find(id);
        let Some(mut batch) = self.ledger().find_batch(org, id).await? else {
            return Ok(None);
        };
        if batch.status != BatchStatus::Pending || !self.may_go_on(&batch).await? {
            return Ok(before.or_else(|| self.batches.find(id)));
        }
        let walking = match self.batches.claim(id) {
            Ok(walking) => walking,
            Err(other) => return Ok(Some(other)),
        };
        batch.status = BatchStatus::Running;
        // If several servers try, the first that saves the batch runs it.
        if let Some(batch) = self.ledger().save_batch(batch).await? {
            self.take_up_batch(batch, walking).await?;
        }
        Ok(None)
    }

    /// Continues the batch of a part that has just changed. Errors are ignored: the sweep tries again.
    pub(crate) async fn advance_of(&self, part: &Invocation) {
        self.try_to_advance(part).await;
    }

    /// Continues the batch of a part and waits for the result. If another walk in this process is running it, for example the sweep, this
    /// waits for that walk and then looks again, because that walk may have read the parts before the last one changed.
    pub(crate) async fn advance_and_see(&self, part: &Invocation) {
        let deadline = tokio::time::Instant::now() + Duration::from_millis(CALL_TIMEOUT_MS);
        while let Some(other) = self.try_to_advance(part).await {
            tokio::select! {
                () = other.ended() => {}
                () = tokio::time::sleep_until(deadline) => return,
                () = self.walk.inner.closing.cancelled() => return,
            }
        }
    }

    async fn try_to_advance(&self, part: &Invocation) -> Option<OtherClaim> {
        let of = part.batch.as_ref()?;
        self.advance_batch(&part.org, &of.batch).await.unwrap_or_else(|error| {
            tracing::warn!(batch = %of.batch, %error, "a batch could not be taken up; trying again later");
            None
        })
    }

    async fn may_go_on(&self, batch: &Batch) -> Result<bool, Error> {
        let (mut waits, mut is_lost) = (false, false);
        for part in &batch.parts {
            let row = self.ledger().find_invocation(&batch.org, &part.invocation).await?;
            let status = row.map(|row| row.status);
            match (batch.mode, status) {
                // How the running part ends decides about the others, so the batch waits for it.
                (_, Some(Status::Running)) => return Ok(false),
                (BatchMode::AllOrNothing, Some(Status::Denied | Status::Expired | Status::Quarantined | Status::Cancelled)) => {
                    is_lost = true;
                }
                (BatchMode::AllOrNothing, Some(Status::Pending)) => waits = true,
                (BatchMode::BestEffort, Some(Status::Pending | Status::Approved)) => waits = true,
                (BatchMode::AllOrNothing | BatchMode::BestEffort, _) => {}
            }
        }
        // A part that can no longer run decides at once: nobody needs to answer the others.
        Ok(is_lost || !waits)
    }

    /// Continues the batches that a crash or an unavailable store left behind. A server that starts alone takes every running batch.
    pub(crate) async fn settle_batches(&self, org: &OrgId, is_alone: bool) -> Result<(), Error> {
        let left = match is_alone {
            true => self.ledger().list_batches_in_status(org, BatchStatus::Running).await?,
            false => self.ledger().list_left_batches(org).await?,
        };
        for batch in left {
            if let Ok(walking) = self.batches.claim(&batch.id) {
                // If several servers try, the first that saves the batch runs it.
                if let Some(batch) = self.ledger().save_batch(batch).await? {
                    self.spawn_batch(batch, walking);
                }
            }
        }
        for batch in self.ledger().list_batches_in_status(org, BatchStatus::Pending).await? {
            let (pipeline, span) = (self.clone(), span::of_batch(&batch));
            let advanced = async move {
                if let Err(error) = pipeline.advance_batch(&batch.org, &batch.id).await {
                    tracing::warn!(batch = %batch.id, %error, "a batch could not be taken up; trying again later");
                }
            };
            self.walk.inner.tasks.spawn(advanced.instrument(span));
        }
        Ok(())
    }

    fn spawn_batch(&self, batch: Batch, walking: Claim<BatchId>) {
        let (pipeline, span) = (self.clone(), span::of_batch(&batch));
        let taken_up = async move {
            let id = batch.id.clone();
            tracing::info!(batch = %id, "a batch that was left behind is taken up again");
            if let Err(error) = pipeline.take_up_batch(batch, walking).await {
                tracing::warn!(batch = %id, %error, "a batch was left behind and could not be taken up; trying again later");
            }
        };
        self.walk.inner.tasks.spawn(taken_up.instrument(span));
    }

    async fn take_up_batch(&self, batch: Batch, walking: Claim<BatchId>) -> Result<(), Error> {
        let _walking = walking;
        let asked = self.open_parts(&batch).await?;
        let principal = self.ledger().find_principal(&batch.org, &batch.principal).await?;
        let Some(principal) = principal else {
            return self.abandon_batch(batch).await.map(|_| ());
        };
        let principal = Principal { device: batch.device.clone(), ..principal };
        let mut results = vec![None; batch.parts.len()];
        Box::pin(self.run_batch(batch, &principal, &asked, &mut results)).await.map(|_| ())
    }

    async fn run_batch(
        &self,
        batch: Batch,
        principal: &Principal,
        asked: &[PartRequest],
        results: &mut [Option<Value>],
    ) -> Result<Batch, Error> {
        let ran = match (batch.mode, batch.intention) {
            (BatchMode::AllOrNothing, Intention::Effect | Intention::Revert) => {
                self.run_all_or_nothing(batch, principal, asked, results).await?
            }
            (BatchMode::BestEffort, _) | (BatchMode::AllOrNothing, Intention::DryRun) => {
                self.run_each(batch, principal, asked, results).await?
            }
        };
        self.end_or_pause(ran).await
    }

    async fn end_or_pause(&self, ran: Ran) -> Result<Batch, Error> {
        match ran {
            Ran::Ended(batch) => self.end_batch(batch).await,
            Ran::Waits(batch) => self.pause_batch(batch).await,
        }
    }

    /// Ends a batch whose requester can no longer act: no further part is performed, and effects are reverted if the batch's mode asks for
    /// it.
    async fn abandon_batch(&self, mut batch: Batch) -> Result<Batch, Error> {
        self.note_parts(&mut batch).await?;
        let ran = self.call_off(batch).await?;
        self.end_or_pause(ran).await
    }

    /// Saves the progress. An error if another server runs the batch now.
    async fn save_batch(&self, batch: Batch) -> Result<Batch, Error> {
        let id = batch.id.clone();
        self.ledger().save_batch(batch).await?.ok_or(Error::BatchTaken { batch: id })
    }

    async fn pause_batch(&self, mut batch: Batch) -> Result<Batch, Error> {
        batch.status = BatchStatus::Pending;
        let batch = self.save_batch(batch).await?;
        self.walk.wake(batch.id.as_str());
        Ok(batch)
    }

    async fn end_batch(&self, mut batch: Batch) -> Result<Batch, Error> {
        batch.status = batch.outcome();
        let now = self.walk.now();
        batch.ended_at = Some(now);
        let id = ReceiptId::new(now, self.walk.random_bytes());
        let body = BatchBody::of(&batch, id.clone(), now).to_canonical();
        let body = body.map_err(|error| Error::Internal { message: error.to_string() })?;
        let event = EventDraft {
            id: EventId::new(now, self.walk.random_bytes()),
            name: batch.status.event_name(),
            key: batch.id.to_string(),
            body: json!({
                "batch_id": batch.id,
                "session_id": batch.session,
                "space_id": batch.space,
                "mode": batch.mode,
                "status": batch.status,
                "trace_id": batch.trace_id,
            })
            .to_string(),
        };
        self.walk.fault("batch.ending");
        let (org, batch_id) = (batch.org.clone(), batch.id.clone());
        let ended = match self.ledger().end_batch(EndBatch { batch, id, body, event }).await? {
            Some(ended) => ended,
            None => return Err(Error::BatchTaken { batch: batch_id }),
        };
        metrics::counter!("countersign_batches_total", "mode" => ended.mode.as_str(), "status" => ended.status.as_str()).increment(1);
        tracing::info!(
            batch = %ended.id,
            org = %org,
            mode = %ended.mode,
            status = %ended.status,
            dry_run = ended.intention == Intention::DryRun,
            trace_id = ended.trace_id,
            "batch"
        );
        self.walk.wake(ended.id.as_str());
        Ok(ended)
    }

    /// Reads a batch. While it has not ended, the answer is held back for up to `limit`.
    pub async fn watch_batch(&self, org: &OrgId, id: &BatchId, limit: Duration) -> Result<Option<Batch>, Error> {
        let (waiter, mut relayed) = (self.walk.waiter(id.as_str()), None);
        let deadline = tokio::time::Instant::now() + limit;
        let mut is_last = limit.is_zero();
        loop {
            let mut changed = std::pin::pin!(waiter.changed());
            changed.as_mut().enable();
            let batch = self.ledger().find_batch(org, id).await?;
            if is_last || batch.as_ref().is_none_or(|batch| batch.status.is_final()) {
                return Ok(batch);
            }
            relayed = relayed.or_else(|| self.walk.relayed(org));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(deadline) => is_last = true,
                () = self.walk.inner.closing.cancelled() => return Ok(batch),
            }
        }
    }
}

/// How far a run of a batch got.
enum Ran {
    Ended(Batch),
    /// The batch waits for a person's answer, or for a part that is still running.
    Waits(Batch),
}

fn refused(part: Option<usize>, why: String) -> Error {
    Error::InvalidBatch { part, why }
}
