//! The life of an invocation. Every write is one transaction over its row, its entry in the audit log, its idempotency key and its event.
//! Entries passed here are signed and chained inside that transaction; the caller sees neither the key nor, beforehand, the position.

use super::Error;
use super::events::EventDraft;
use super::lines::NewLine;
use crate::effect::Purpose;
use crate::grant::GrantTerms;
use crate::invocation::{Answer, Beyond};
use crate::quarantine::{Caught, Holds};
use crate::{
    ActionId, ApprovalId, AutomationId, Digest, Future, GrantId, IntentId, Invocation, InvocationId, OrgId, PrincipalId, ReceiptId,
    SpaceId, Status, Timestamp, TokenId,
};
use std::sync::Arc;

/// Invocations, from the first row to the end.
pub trait Invocations: Send + Sync {
    /// The time of the database's clock, which alone decides expiry.
    fn now(&self) -> Future<'_, Result<Timestamp, Error>>;
    fn find_invocation<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Invocation>, Error>>;
    /// Whether there is such an invocation in another org. Nothing else about it is returned.
    fn is_of_another_org<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>>;
    fn find_sealed_params<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// A taken key that has not expired.
    fn find_reservation<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        action: &'a ActionId,
        key: &'a str,
    ) -> Future<'a, Result<Option<Reservation>, Error>>;
    /// At most 100 invocations in this status, oldest first, after this one.
    fn list_in_status<'a>(
        &'a self,
        org: &'a OrgId,
        status: Status,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// At most 100 invocations in this status that have expired by the database's clock, oldest first.
    fn list_expired<'a>(&'a self, org: &'a OrgId, status: Status) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// At most `limits::DRIFT_ENDS_PER_WRITE` pending invocations of this action, oldest first, after this one.
    fn list_pending_of<'a>(
        &'a self,
        org: &'a OrgId,
        action: &'a ActionId,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// The answers to this invocation that the audit log holds with a valid signature, in order.
    fn list_signed_answers<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Vec<SignedAnswer>, Error>>;
    /// The latest intent of this invocation that the audit log holds with a valid signature.
    fn find_signed_intent<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<SignedIntent>, Error>>;
    fn hold(&self, hold: Hold) -> Future<'_, Result<Held, Error>>;
    fn approve(&self, approve: Approve) -> Future<'_, Result<Approved, Error>>;
    fn begin(&self, begin: Begin) -> Future<'_, Result<Begun, Error>>;
    /// Starts another attempt of a running invocation: it has an intent of its own before its effect.
    fn begin_again(&self, begin: BeginAgain) -> Future<'_, Result<Begun, Error>>;
    /// `running` becomes `in_doubt`: the effect may have happened. The idempotency key stays taken.
    fn doubt(&self, invocation: Invocation, event: EventDraft) -> Future<'_, Result<Finished, Error>>;
    /// Takes an `Arc`, so that the caller can retry with the same value if the store was unavailable.
    fn finish(&self, finish: Arc<Finish>) -> Future<'_, Result<Finished, Error>>;
}

/// The kind and the id of an audit log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryId {
    Intent(IntentId),
    Receipt(ReceiptId),
}

/// The body of an audit log entry, as canonical JSON; the store adds position, chain and signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDraft {
    pub id: EntryId,
    pub body: String,
}

/// An idempotency key to take for one invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReservation {
    pub key: String,
    pub expires_at: Timestamp,
    /// A call in doubt that this one repeats: if that call has the key, the key passes on.
    pub instead_of: Option<InvocationId>,
}

/// An idempotency key that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub invocation: InvocationId,
    /// The digest of the params as the holder sent them.
    pub raw: Digest,
}

/// How a transaction finds the row of the invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The row is new: its id was just drawn and never written. A second write of it would fail every write in the same commit, unless it is
    /// a part of a batch.
    Insert,
    /// The row is new, unless an earlier try of this very write was committed after all.
    InsertAgain,
    /// This process started the invocation, so it is `running` and no other process ends it. If that is not so, or another server has
    /// claimed it, every write in the same commit fails, and the caller may retry with `From(Running)`.
    Begun,
    /// The row must have this status; otherwise nothing is written.
    From(Status),
    /// The row must have this status and have expired by the database's clock; otherwise nothing is written.
    ExpiredFrom(Status),
}

/// Makes an invocation pending until a person answers.
#[derive(Clone, Debug)]
pub struct Hold {
    pub invocation: Invocation,
    /// The params as the source will receive them, sealed under the space's key until the invocation ends.
    pub sealed_params: Vec<u8>,
    pub reservation: Option<NewReservation>,
    pub event: EventDraft,
    pub pending_max: u32,
    /// Must still be the version of the org's rules.
    pub rules_version: i64,
    /// The line on which the caller waits; absent if it gets a reference at once.
    pub line: Option<NewLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    Pending,
    RulesChanged,
    TooManyPending { pending: u32 },
    KeyTaken(Reservation),
}

/// Records the intent just before the effect. After it, a crash leaves the call in doubt.
#[derive(Clone, Debug)]
pub struct Begin {
    /// With status `running`.
    pub invocation: Invocation,
    pub row: Row,
    pub intent: EntryDraft,
    /// The params of a call that was not held, sealed until it ends.
    pub sealed_params: Option<Vec<u8>>,
    pub reservation: Option<NewReservation>,
    /// Must still be the version of the org's rules.
    pub rules_version: i64,
    /// The line on which the caller of a write waits that was not held.
    pub line: Option<NewLine>,
    /// What the approvers permitted beyond this call.
    pub beyond: Option<BeyondOnce>,
}

/// Records the intent of a further attempt just before it.
#[derive(Clone, Debug)]
pub struct BeginAgain {
    /// With status `running`. Or with status `in_doubt`, which it keeps, if this server has claimed it to reconcile it.
    pub invocation: Invocation,
    pub intent: EntryDraft,
    /// Must still be the version of the org's rules; `None`: the attempt is made whatever the rules are.
    pub rules_version: Option<i64>,
}

/// What takes effect together with the intent of an approved call, and not before.
#[derive(Clone, Debug, PartialEq)]
pub enum BeyondOnce {
    /// Sets the mode of the automation that the call was made for, or of the org.
    Always {
        automation: Option<AutomationId>,
        by: PrincipalId,
        /// Whether it is also the consent of whoever is behind the call to further ones, because its space asks for it.
        consents: bool,
    },
    Grant {
        id: GrantId,
        terms: Box<GrantTerms>,
        lifetime_seconds: u64,
        by: PrincipalId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    Started,
    /// A rule has changed since: decide again.
    RulesChanged,
    /// The grant is used up, revoked or expired: decide again.
    GrantSpent,
    KeyTaken(Reservation),
    /// The row did not have the expected status; this is its status.
    Not(Status),
    /// The approval had expired by the database's clock.
    Expired,
    /// The caller has left: the approval is kept until the call is asked for again.
    CallerLeft,
    Missing,
}

/// What happens to the idempotency key when an invocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFate {
    /// Later calls under the key get this receipt.
    Answers,
    /// There is no effect: the key may be used again.
    Freed,
}

/// Ends an invocation with its receipt and its event.
#[derive(Clone, Debug)]
pub struct Finish {
    /// With its final status, result and times.
    pub invocation: Box<Invocation>,
    pub row: Row,
    pub receipt: EntryDraft,
    pub event: EventDraft,
    /// Told too, of a call that an older contract asked for.
    pub executed: Option<EventDraft>,
    pub key: KeyFate,
    /// The reward of an effect that was tried, in millionths.
    pub reward: Option<i64>,
    /// The answer that ended it, if a person did.
    pub approval: Option<Approval>,
    pub grant: GrantUse,
    /// For an end without an intent: must still be the version of the org's rules.
    pub rules_version: Option<i64>,
    /// The content of a call that was quarantined.
    pub quarantine: Option<NewQuarantine>,
    /// The whole result as JSON, if the invocation keeps only a part of it and a run needs all of it.
    pub whole_result: Option<String>,
}

/// The content of a quarantined call, to be kept for review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewQuarantine {
    pub holds: Holds,
    pub sealed: SealedPayload,
    pub caught: Vec<Caught>,
    pub lifetime_seconds: u64,
}

/// Dangerous content, sealed under the key of its space, with the HMAC that identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPayload {
    pub bytes: Vec<u8>,
    pub digest: Digest,
}

/// What happens to the use of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantUse {
    /// The use is spent, or there was no grant.
    Kept,
    /// The call provably never reached the source: the use is given back.
    Returned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// With the receipt's position in the audit log.
    Recorded {
        seq: u64,
    },
    /// The row did not have the expected status, or had not expired yet; this is its status. If this is `running` and `running` was
    /// expected, another server has claimed it. Nothing was written.
    Not(Status),
    /// A rule has changed since: decide again. Nothing was written.
    RulesChanged,
    /// Whoever answered may not answer, or their token no longer works. Nothing was written.
    MayNotAnswer,
    Missing,
}

/// One person's answer to one pending invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub answer: Answer,
    pub approves: bool,
    /// The binding that was shown to the person: must equal the row's binding.
    pub binding: Digest,
    /// The token that they answer with, or that they made the link with.
    pub token: TokenId,
}

/// An answer as the audit log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedAnswer {
    pub by: PrincipalId,
    pub approves: bool,
    pub binding: Digest,
    pub beyond: Beyond,
}

/// An intent as the audit log holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedIntent {
    pub attempt: u32,
    pub purpose: Purpose,
    /// HMAC of the evidence.
    pub evidence: Option<Digest>,
}

/// Counts one person's approval; with the last one needed, `pending` becomes `approved`.
#[derive(Clone, Debug)]
pub struct Approve {
    pub org: OrgId,
    pub invocation: InvocationId,
    pub approval: Approval,
    /// How many different people must approve.
    pub needed: u32,
    /// Whether only people count who could approve when the call became pending.
    pub is_separate: bool,
    /// Set if the approver edited the params first. Earlier approvals then do not count, since they were for other params.
    pub edited: Option<Edited>,
    /// Published when the invocation becomes `approved`.
    pub event: EventDraft,
    /// Published when more people are needed.
    pub event_counted: EventDraft,
}

/// A pending call with edited params.
#[derive(Clone, Debug)]
pub struct Edited {
    /// With its new binding.
    pub invocation: Box<Invocation>,
    pub sealed_params: Vec<u8>,
    /// The binding the approver saw.
    pub shown: Digest,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Approved {
    /// With everyone who approved.
    Approved(Box<Invocation>),
    /// More people are needed.
    Counted(Box<Invocation>),
    /// This person has already approved, and more people are needed.
    Already,
    /// This person could not approve yet when the call became pending.
    TooNew,
    /// This person may not approve, or their token no longer works.
    MayNot,
    Not(Status),
    Expired,
    /// The binding shown to the person is not the row's.
    OtherBinding,
    Missing,
}
