//! Performs the parts of a batch, one after the other.

use super::Ran;
use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::request::{Outcome, Request};
use crate::walk::Reached;
use crate::walk::admit::{Admitted, Counted, Entrance, Step, Walked};
use crate::walk::decide::Decided;
use countersign_core::batch::{Part, PartRequest};
use countersign_core::{Batch, BatchId, Call, Invocation, Principal, Status, json};
use serde::Deserialize;
use serde_json::Value;

impl Pipeline {
    /// Performs each part independently. A part that needs a person becomes pending by itself; the batch ends when all parts have ended.
    pub(super) async fn run_each(
        &self,
        mut batch: Batch,
        principal: &Principal,
        asked: &[PartRequest],
        results: &mut [Option<Value>],
    ) -> Result<Ran, Error> {
        for (index, request) in asked.iter().enumerate() {
            if batch.parts[index].status.is_none() && batch.parts[index].failure.is_none() {
                let known = self.ledger().find_invocation(&batch.org, &batch.parts[index].invocation).await?;
                if known.is_none() {
                    let walked = match self.admit_part(&batch, index, principal, request, Counted::Now).await {
                        Ok(admitted) => Box::pin(self.walk.walk(admitted)).await,
                        Err(error) => Err(error),
                    };
                    results[index] = settle(&mut batch.parts[index], walked)?.and_then(result_of);
                    self.walk.fault("batch.part");
                }
            }
        }
        self.note_parts(&mut batch).await?;
        let is_open = |part: &Part| matches!(part.status, Some(Status::Pending | Status::Approved | Status::Running));
        Ok(if batch.parts.iter().any(is_open) { Ran::Waits(batch) } else { Ran::Ended(batch) })
    }

    /// Starts no part before every part may run; then runs all of them, in order. If one fails, the others are reverted.
    pub(super) async fn run_all_or_nothing(
        &self,
        mut batch: Batch,
        principal: &Principal,
        asked: &[PartRequest],
        results: &mut [Option<Value>],
    ) -> Result<Ran, Error> {
        self.note_parts(&mut batch).await?;
        if !batch.parts.iter().any(Part::ran) {
            // Repeated after every wait: by now the rules may require an approval for a part that did not need one.
            let counted = if batch.asked { Counted::Not } else { Counted::Now };
            self.ask_all(&mut batch, principal, asked, counted).await?;
            batch.asked = true;
            batch = self.save_batch(batch).await?;
            self.walk.fault("batch.asked");
            self.note_parts(&mut batch).await?;
        }
        if batch.parts.iter().any(is_lost) {
            return self.call_off(batch).await;
        }
        if batch.parts.iter().any(|part| part.status == Some(Status::Pending)) {
            return Ok(Ran::Waits(batch));
        }
        for (index, request) in asked.iter().enumerate() {
            let performed = self.perform_part(&batch, index, principal, request).await;
            results[index] = settle(&mut batch.parts[index], performed)?.flatten().and_then(result_of);
            self.note_part(&mut batch, index).await?;
            batch = self.save_batch(batch).await?;
            self.walk.fault("batch.part");
            match batch.parts[index].status {
                Some(Status::Succeeded) => {}
                // Another walk is still reconciling the part, or its end is still being written.
                Some(Status::Running) => return Ok(Ran::Waits(batch)),
                // A kill switch is on. As long as no part has run, the batch waits like any approved call.
                Some(Status::Approved) if !batch.parts.iter().any(Part::ran) => return Ok(Ran::Waits(batch)),
                _ => return self.call_off(batch).await,
            }
        }
        Ok(Ran::Ended(batch))
    }

    /// Decides every part first, so that nobody is asked about a batch that a rule denies anyway.
    async fn ask_all(&self, batch: &mut Batch, principal: &Principal, asked: &[PartRequest], counted: Counted) -> Result<(), Error> {
        let mut to_hold = Vec::new();
        for (index, request) in asked.iter().enumerate() {
            if self.ledger().find_invocation(&batch.org, &batch.parts[index].invocation).await?.is_some() {
                continue;
            }
            let decided = match self.admit_part(batch, index, principal, request, counted).await {
                Ok(admitted) => self.stand(admitted, Asking::NotYet).await,
                Err(error) => Err(error),
            };
            match decided {
                Ok(Standing::Cleared) => {}
                Ok(Standing::NeedsPerson(admitted)) => to_hold.push((index, admitted)),
                Ok(Standing::Ended) => return Ok(()),
                Err(error) => return settle(&mut batch.parts[index], Err::<(), _>(error)).map(|_| ()),
            }
        }
        for (index, admitted) in to_hold {
            // The part is decided again. By now it may even be allowed; it must not run yet in any case.
            let held = self.stand(admitted, Asking::Now).await;
            if held.is_err() {
                return settle(&mut batch.parts[index], held).map(|_| ());
            }
        }
        Ok(())
    }

    /// Decides a part by the rules in force now. Nothing is performed.
    async fn stand(&self, admitted: Box<Admitted>, asking: Asking) -> Result<Standing, Error> {
        self.walk.until_decided(admitted, |admitted| self.stand_once(admitted, asking)).await
    }

    async fn stand_once(&self, admitted: Box<Admitted>, asking: Asking) -> Result<Step<Standing>, Error> {
        let walked = match (self.walk.reach(admitted).await?, asking) {
            (Reached::Stopped(walked), _) => walked,
            (Reached::Fresh(Decided::Denied(denied)), _) => self.walk.record_refusal(denied, Status::Denied, None).await?,
            (Reached::Fresh(Decided::Pending(pending)), Asking::Now) => self.walk.hold(pending).await?,
            (Reached::Fresh(Decided::Pending(pending)), Asking::NotYet) => {
                return Ok(Step::Done(Standing::NeedsPerson(pending.gated.undecided())));
            }
            (Reached::Fresh(Decided::Cleared(_) | Decided::Preview(_)), _) => return Ok(Step::Done(Standing::Cleared)),
        };
        Ok(match walked {
            Step::Done(_) => Step::Done(Standing::Ended),
            Step::RulesChanged(again) => Step::RulesChanged(again),
        })
    }

    /// Performs a part after every part was decided. A part that needs an approval only now fails instead of waiting.
    async fn perform_part(
        &self,
        batch: &Batch,
        index: usize,
        principal: &Principal,
        request: &PartRequest,
    ) -> Result<Option<Outcome>, Error> {
        let held = self.ledger().find_invocation(&batch.org, &batch.parts[index].invocation).await?;
        match held {
            Some(approved) if approved.status == Status::Approved => return Box::pin(self.walk.resume(approved)).await.map(Some),
            Some(_) => return Ok(None),
            None => {}
        }
        let admitted = self.admit_part(batch, index, principal, request, Counted::Not).await?;
        let _telling = self.walk.inner.progress.telling(&admitted.id, (&admitted.session).into());
        self.walk.until_decided(admitted, |admitted| self.perform_once(batch, admitted)).await.map(Some)
    }

    async fn perform_once(&self, batch: &Batch, admitted: Box<Admitted>) -> Result<Walked, Error> {
        match self.walk.reach(admitted).await? {
            Reached::Stopped(walked) => Ok(walked),
            Reached::Fresh(Decided::Denied(denied)) => self.walk.record_refusal(denied, Status::Denied, None).await,
            Reached::Fresh(Decided::Preview(preview)) => self.walk.dry_run(preview).await,
            Reached::Fresh(Decided::Cleared(cleared)) => Box::pin(self.walk.perform(cleared)).await,
            Reached::Fresh(Decided::Pending(_)) => Err(Error::NeedsPersonNow { batch: batch.id.clone() }),
        }
    }

    async fn admit_part(
        &self,
        batch: &Batch,
        index: usize,
        principal: &Principal,
        asked: &PartRequest,
        counted: Counted,
    ) -> Result<Box<Admitted>, Error> {
        let call = Call { reason: asked.call.reason.clone().or_else(|| batch.reason.clone()), ..asked.call.clone() };
        let request = Request::new(principal.clone(), batch.session.clone(), asked.action.as_str(), call);
        let request = Request { intention: batch.intention, trace_id: batch.trace_id.clone(), ..request };
        let entrance = Entrance::Part(batch.part_of(index));
        self.walk.admit_counted(batch.parts[index].invocation.clone(), request, entrance, counted).await
    }

    /// Updates every part from its invocation.
    pub(super) async fn note_parts(&self, batch: &mut Batch) -> Result<(), Error> {
        for index in 0..batch.parts.len() {
            self.note_part(batch, index).await?;
        }
        Ok(())
    }

    async fn note_part(&self, batch: &mut Batch, index: usize) -> Result<Option<Invocation>, Error> {
        let part = &mut batch.parts[index];
        let invocation = self.ledger().find_invocation(&batch.org, &part.invocation).await?;
        if let Some(invocation) = &invocation {
            part.note(invocation);
        }
        Ok(invocation)
    }

    /// Opens the sealed requests of the parts.
    pub(super) async fn open_parts(&self, batch: &Batch) -> Result<Vec<PartRequest>, Error> {
        let broken = || Error::Internal { message: format!("the parts of `{}` are gone or do not open", batch.id) };
        let sealed = self.ledger().find_sealed_parts(&batch.org, &batch.id).await?.ok_or_else(broken)?;
        let key = self.walk.inner.keyring.space_key(&batch.org, &batch.space).await?;
        let plain = key.open(&context_of(&batch.id), &sealed).map_err(|_| broken())?;
        let value = json::parse_strict(&plain).map_err(|_| broken())?;
        Vec::deserialize(value).map_err(|_| broken())
    }
}

/// The state of a part before any part has run.
enum Standing {
    Cleared,
    NeedsPerson(Box<Admitted>),
    /// It has ended with a receipt, or it is pending.
    Ended,
}

/// Whether to ask a person now, or only to find out whether one is needed.
#[derive(Clone, Copy)]
enum Asking {
    NotYet,
    Now,
}

/// A part that can no longer run.
fn is_lost(part: &Part) -> bool {
    let ended = matches!(part.status, Some(Status::Denied | Status::Expired | Status::Quarantined | Status::Cancelled));
    ended || part.status.is_none() && part.failure.is_some()
}

/// If an error kept a part from becoming an invocation, it is the failure of that part. An error of our own is returned: the batch is
/// continued later.
fn settle<T>(part: &mut Part, walked: Result<T, Error>) -> Result<Option<T>, Error> {
    match walked {
        Ok(walked) => Ok(Some(walked)),
        // The invocation has the reason.
        Err(Error::Conflict { .. }) => Ok(None),
        Err(error) => match error.to_failure() {
            Some(failure) => {
                part.failure = Some(failure);
                Ok(None)
            }
            None => Err(error),
        },
    }
}

fn result_of(outcome: Outcome) -> Option<Value> {
    match outcome {
        Outcome::Ended { result, .. } => result,
        Outcome::Replayed(_) | Outcome::Pending(_) | Outcome::InDoubt(_) => None,
    }
}

pub(super) fn context_of(batch: &BatchId) -> String {
    format!("batch:{batch}")
}

pub(super) fn to_text(parts: &[PartRequest]) -> Result<String, Error> {
    json::canonical(&parts).map_err(|error| Error::InvalidBatch { part: None, why: error.to_string() })
}
