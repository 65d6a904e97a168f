//! A batch: several calls requested together, with one status for all of them.

use crate::Call;
use crate::invocation::{Failure, Intention, ReceiptRef};
use crate::part_of::{BatchMode, PartOf};
use crate::principal::Device;
use crate::{ActionId, BatchId, Digest, Invocation, InvocationId, OrgId, PrincipalId, ReceiptId, SessionId, SpaceId, Status, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a batch is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    /// Some part waits for a person.
    Pending,
    Running,
    /// Every part succeeded.
    Succeeded,
    /// Best effort: some parts succeeded, others did not.
    Partial,
    /// A part failed, and no effect of the other parts is left.
    Reverted,
    /// Best effort: no part succeeded. All or nothing: an effect stands, or may stand, that should not.
    Failed,
    /// A rule or a person denied a part before any part ran.
    Denied,
}

crate::words!(BatchStatus {
    Pending = "pending", Running = "running", Succeeded = "succeeded", Partial = "partial", Reverted = "reverted", Failed = "failed",
    Denied = "denied",
});

impl BatchStatus {
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Succeeded | Self::Partial | Self::Reverted | Self::Failed | Self::Denied => true,
        }
    }

    /// The event that announces this status.
    pub const fn event_name(self) -> &'static str {
        match self {
            Self::Pending => "batch.held",
            Self::Running => "batch.started",
            Self::Succeeded => "batch.succeeded",
            Self::Partial => "batch.partial",
            Self::Reverted => "batch.reverted",
            Self::Failed => "batch.failed",
            Self::Denied => "batch.denied",
        }
    }
}

/// What is left of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartEffect {
    /// It changed nothing, or was rolled back.
    #[default]
    None,
    Stands,
    /// It was reverted because of another part.
    Reverted,
    /// Nobody knows.
    Unknown,
}

/// One call of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub action: ActionId,
    /// Drawn when the batch is opened, so that after a crash the part's call can be found.
    pub invocation: InvocationId,
    /// `None`: the part did not become an invocation.
    pub status: Option<Status>,
    pub receipt: Option<ReceiptId>,
    pub effect: PartEffect,
    /// Why the part did not become an invocation, or did not succeed.
    pub failure: Option<Failure>,
    /// The call that reverted the part, or tried to.
    pub revert: Option<PartRevert>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRevert {
    pub ok: bool,
    /// `None` if the revert could not even be requested.
    pub invocation: Option<InvocationId>,
    pub receipt: Option<ReceiptId>,
    pub failure: Option<Failure>,
}

/// Several calls that were requested together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub id: BatchId,
    pub org: OrgId,
    pub space: SpaceId,
    pub session: SessionId,
    pub principal: PrincipalId,
    /// The device that the requester's token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    pub mode: BatchMode,
    pub intention: Intention,
    pub status: BatchStatus,
    pub parts: Vec<Part>,
    /// Whether every person who has to be asked has been asked; from then on only their answers are missing.
    pub asked: bool,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    /// HMAC of everything that was requested.
    pub raw: Digest,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub receipt: Option<ReceiptRef>,
    pub trace_id: String,
    /// How often the batch was saved. A save succeeds only if this is the latest version.
    #[serde(skip)]
    pub version: i64,
    /// When the batch was last saved, by the database's clock.
    #[serde(skip)]
    pub touched_at: Timestamp,
}

impl Batch {
    /// The reference to the part at `index`.
    pub fn part_of(&self, index: usize) -> PartOf {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        PartOf { batch: self.id.clone(), index: count(index), of: count(self.parts.len()), mode: self.mode }
    }

    /// The same without its texts: why it was requested, and the sentences about parts that failed.
    #[must_use]
    pub fn with_digests_only(mut self) -> Self {
        self.reason = None;
        for part in &mut self.parts {
            let of_revert = part.revert.as_mut().and_then(|revert| revert.failure.as_mut());
            part.failure.iter_mut().chain(of_revert).for_each(Failure::forget_message);
        }
        self
    }

    /// The final status, from the state of its parts. Call it once no part is running any more.
    pub fn outcome(&self) -> BatchStatus {
        let succeeded = self.parts.iter().filter(|part| part.status == Some(Status::Succeeded)).count();
        let stands = |part: &Part| matches!(part.effect, PartEffect::Stands | PartEffect::Unknown);
        if succeeded == self.parts.len() && self.parts.iter().all(|part| part.revert.is_none()) {
            return BatchStatus::Succeeded;
        }
        match self.mode {
            BatchMode::AllOrNothing if self.intention != Intention::DryRun => {
                if self.parts.iter().any(stands) {
                    BatchStatus::Failed
                } else if self.parts.iter().any(Part::ran) {
                    BatchStatus::Reverted
                } else {
                    BatchStatus::Denied
                }
            }
            BatchMode::AllOrNothing | BatchMode::BestEffort if succeeded == 0 => BatchStatus::Failed,
            BatchMode::AllOrNothing | BatchMode::BestEffort => BatchStatus::Partial,
        }
    }
}

impl Part {
    /// Whether the part's source was asked to do anything.
    pub const fn ran(&self) -> bool {
        match self.status {
            Some(Status::Succeeded | Status::Failed | Status::Reverted | Status::Running | Status::InDoubt) => true,
            Some(Status::Pending | Status::Approved | Status::Denied | Status::Quarantined | Status::Expired | Status::Cancelled)
            | None => false,
        }
    }

    /// Whether the part is still running, so that what is left of its effect is not known yet.
    pub fn is_running(&self) -> bool {
        self.status == Some(Status::Running)
    }

    /// Copies the current state of the part's invocation.
    pub fn note(&mut self, invocation: &Invocation) {
        self.status = Some(invocation.status);
        self.receipt = invocation.receipt.as_ref().map(|receipt| receipt.id.clone());
        self.failure.clone_from(&invocation.failure);
        self.effect = effect_of(invocation);
    }
}

fn effect_of(invocation: &Invocation) -> PartEffect {
    let is_write = invocation.tier.class() != crate::action::Class::Read && invocation.intention == Intention::Effect;
    match invocation.status {
        Status::Succeeded if is_write => PartEffect::Stands,
        Status::InDoubt | Status::Running => PartEffect::Unknown,
        Status::Failed if invocation.aftermath.is_left_over() => PartEffect::Unknown,
        Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Pending
        | Status::Approved
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled => PartEffect::None,
    }
}

/// The request of one part; kept sealed until the batch ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRequest {
    pub action: String,
    pub call: Call,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(mode: BatchMode, parts: &[(Option<Status>, PartEffect)]) -> Batch {
        let at = Timestamp::from_micros(0);
        let part = |(status, effect): &(Option<Status>, PartEffect)| Part {
            action: ActionId::parse("files.write").unwrap(),
            invocation: InvocationId::new(at, [0; 10]),
            status: *status,
            receipt: None,
            effect: *effect,
            failure: None,
            revert: None,
        };
        Batch {
            id: BatchId::new(at, [0; 10]),
            org: OrgId::new(at, [0; 10]),
            space: SpaceId::new(at, [0; 10]),
            session: SessionId::new(at, [0; 10]),
            principal: PrincipalId::Agent(SessionId::new(at, [0; 10])),
            device: None,
            mode,
            intention: Intention::Effect,
            status: BatchStatus::Running,
            parts: parts.iter().map(part).collect(),
            asked: true,
            reason: None,
            idempotency_key: None,
            raw: Digest::new([0; 32]),
            created_at: at,
            ended_at: None,
            receipt: None,
            trace_id: String::new(),
            version: 0,
            touched_at: at,
        }
    }

    #[test]
    fn what_the_parts_make_of_a_batch() {
        use BatchMode::{AllOrNothing, BestEffort};
        let done = (Some(Status::Succeeded), PartEffect::Stands);
        let read = (Some(Status::Succeeded), PartEffect::None);
        let taken_back = (Some(Status::Succeeded), PartEffect::Reverted);
        let failed = (Some(Status::Failed), PartEffect::None);
        let doubted = (Some(Status::InDoubt), PartEffect::Unknown);
        let denied = (Some(Status::Denied), PartEffect::None);
        let never = (None, PartEffect::None);
        let cases = [
            (AllOrNothing, vec![done, read, done], BatchStatus::Succeeded),
            (AllOrNothing, vec![taken_back, failed, never], BatchStatus::Reverted),
            (AllOrNothing, vec![failed, never], BatchStatus::Reverted),
            (AllOrNothing, vec![done, failed], BatchStatus::Failed),
            (AllOrNothing, vec![taken_back, doubted], BatchStatus::Failed),
            (AllOrNothing, vec![never, denied], BatchStatus::Denied),
            (BestEffort, vec![done, read], BatchStatus::Succeeded),
            (BestEffort, vec![done, denied, failed], BatchStatus::Partial),
            (BestEffort, vec![never, denied], BatchStatus::Failed),
        ];
        for (mode, parts, expected) in cases {
            assert_eq!(batch(mode, &parts).outcome(), expected, "{mode} {parts:?}");
        }
    }
}
