//! The life of an invocation. Every write is one transaction over its row, its entry in the log, its idempotency key and its event.
//! Entries given here are signed and chained inside that transaction; the caller never sees a key or a position first.

use super::Error;
use super::events::EventDraft;
use crate::grant::GrantTerms;
use crate::invocation::Answer;
use crate::quarantine::{Caught, Holds};
use crate::{
    ActionId, ApprovalId, AutomationId, Digest, Future, GrantId, IntentId, Invocation, InvocationId, OrgId, PrincipalId, ReceiptId,
    SpaceId, Status, Timestamp,
};
use std::sync::Arc;

/// Invocations, from pending or begun to ended.
pub trait Invocations: Send + Sync {
    /// The database's clock: it alone decides expiry.
    fn now(&self) -> Future<'_, Result<Timestamp, Error>>;
    fn find_invocation<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Invocation>, Error>>;
    /// Whether there is such an invocation and it is not this org's. Nothing else of it is told.
    fn is_of_another_org<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>>;
    fn find_sealed_params<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// A taken key whose time has not run out.
    fn find_reservation<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        action: &'a ActionId,
        key: &'a str,
    ) -> Future<'a, Result<Option<Reservation>, Error>>;
    /// At most 100 invocations in this status, oldest first, from behind this one.
    fn list_in_status<'a>(
        &'a self,
        org: &'a OrgId,
        status: Status,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// At most 100 invocations in this status whose time has run out by the database's clock, oldest first.
    fn list_expired<'a>(&'a self, org: &'a OrgId, status: Status) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// At most `limits::DRIFT_ENDS_PER_WRITE` pending invocations of this action, oldest first.
    fn list_pending_of<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Vec<Invocation>, Error>>;
    fn hold(&self, hold: Hold) -> Future<'_, Result<Held, Error>>;
    fn approve(&self, approve: Approve) -> Future<'_, Result<Approved, Error>>;
    fn begin(&self, begin: Begin) -> Future<'_, Result<Begun, Error>>;
    /// Another attempt of a running invocation: its own intent before its own effect.
    fn begin_again(&self, begin: BeginAgain) -> Future<'_, Result<Begun, Error>>;
    /// `running` becomes `in_doubt`: the effect may have happened. Its key stays taken.
    fn doubt(&self, invocation: Invocation, event: EventDraft) -> Future<'_, Result<Finished, Error>>;
    /// Shared with whoever asks, who tries again when the store was away.
    fn finish(&self, finish: Arc<Finish>) -> Future<'_, Result<Finished, Error>>;
}

/// What an entry of the log records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryId {
    Intent(IntentId),
    Receipt(ReceiptId),
}

/// The body of an entry, canonical JSON; the store adds position, chain and signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDraft {
    pub id: EntryId,
    pub body: String,
}

/// An idempotency key to be taken for one invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReservation {
    pub key: String,
    pub expires_at: Timestamp,
    /// A call in doubt that this one repeats: where it has the key, the key passes on.
    pub instead_of: Option<InvocationId>,
}

/// An idempotency key that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub invocation: InvocationId,
    /// As proposed by whoever took it.
    pub raw: Digest,
}

/// How a transaction finds the invocation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// It is new: its id was drawn for it and never written. A second write under it would fail all that share its commit.
    Insert,
    /// It is new, unless an earlier try of this very write was kept after all.
    InsertAgain,
    /// This process began it, so it is `running` and nobody else ends it. Were it not, or had another server claimed it, all that share the commit would fail and
    /// could be tried again as `From(Running)`.
    Begun,
    /// It must be in this status, else nothing happens.
    From(Status),
    /// It must be in this status and past its expiry by the database's clock, else nothing happens.
    ExpiredFrom(Status),
}

/// Pends an invocation until a person answers.
#[derive(Clone, Debug)]
pub struct Hold {
    pub invocation: Invocation,
    /// The params as the source will receive them, sealed under the space's key until the invocation ends.
    pub sealed_params: Vec<u8>,
    pub reservation: Option<NewReservation>,
    pub event: EventDraft,
    pub pending_max: u32,
    /// The rules it was decided by must still be the org's.
    pub rules_version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    Pending,
    RulesChanged,
    TooManyPending { pending: u32 },
    KeyTaken(Reservation),
}

/// Records the intent of an effect, just before it: from here on a crash leaves it `in_doubt`.
#[derive(Clone, Debug)]
pub struct Begin {
    /// With status `running`.
    pub invocation: Invocation,
    pub row: Row,
    pub intent: EntryDraft,
    /// The params of a call that was not held, sealed until it ends.
    pub sealed_params: Option<Vec<u8>>,
    pub reservation: Option<NewReservation>,
    /// The rules it was decided by must still be the org's.
    pub rules_version: i64,
    /// What the approvers said it should do besides.
    pub beyond: Option<BeyondOnce>,
}

/// Records the intent of a further attempt, just before it.
#[derive(Clone, Debug)]
pub struct BeginAgain {
    /// With status `running`; or `in_doubt`, claimed by who finds out what became of it, which it stays.
    pub invocation: Invocation,
    pub intent: EntryDraft,
    /// The rules it was decided by must still be the org's; nothing said: it goes on whatever they are.
    pub rules_version: Option<i64>,
}

/// What becomes true with the intent of an approved call, and not before.
#[derive(Clone, Debug, PartialEq)]
pub enum BeyondOnce {
    /// Of the automation the call was made for, or of the org.
    Always {
        automation: Option<AutomationId>,
        by: PrincipalId,
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
    /// Somebody changed a rule since: decide again.
    RulesChanged,
    /// The grant it relied on is used up, revoked or past its time: decide again.
    GrantSpent,
    KeyTaken(Reservation),
    /// The row was not in the expected status; this is the one it has.
    Not(Status),
    /// The approval's time had run out by the database's clock.
    Expired,
    Missing,
}

/// What becomes of the idempotency key when an invocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFate {
    /// Later calls under the key get this receipt.
    Answers,
    /// Nothing happened: the key may be used again.
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
    pub key: KeyFate,
    /// The answer that ended it, where a person did.
    pub approval: Option<Approval>,
    pub grant: GrantUse,
    /// Of an end that no intent came before: the rules it was decided by must still be the org's.
    pub rules_version: Option<i64>,
    /// What the call held, where it was too dangerous to run.
    pub quarantine: Option<NewQuarantine>,
}

/// What a quarantined call held, to be kept for review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewQuarantine {
    pub holds: Holds,
    pub sealed: SealedPayload,
    pub caught: Vec<Caught>,
    pub lifetime_seconds: u64,
}

/// What was dangerous, sealed under the key of its space, with the HMAC by which it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPayload {
    pub bytes: Vec<u8>,
    pub digest: Digest,
}

/// What becomes of the use of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantUse {
    /// It is spent, or there was none.
    Kept,
    /// The call provably never left: the use is given back.
    Returned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// With the receipt's position in the log.
    Recorded {
        seq: u64,
    },
    /// The row was not in the expected status, or not yet past its time; this is the status it has. `running` where it was expected to
    /// be: another server has claimed it. Nothing was written.
    Not(Status),
    /// Somebody changed a rule since: decide again. Nothing was written.
    RulesChanged,
    Missing,
}

/// One person's answer to one pending invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub answer: Answer,
    pub approves: bool,
    /// What was shown to the person: must equal the row's binding.
    pub binding: Digest,
}

/// Counts one person's yes; with the last that is needed `pending` becomes `approved`.
#[derive(Clone, Debug)]
pub struct Approve {
    pub org: OrgId,
    pub invocation: InvocationId,
    pub approval: Approval,
    /// How many different people must say yes.
    pub needed: u32,
    /// The approver changed the params first: everyone before has approved something else.
    pub edited: Option<Edited>,
    /// Told when it becomes `approved`.
    pub event: EventDraft,
    /// Told when more people are needed.
    pub event_counted: EventDraft,
}

/// A pending call with other params than it was asked with.
#[derive(Clone, Debug)]
pub struct Edited {
    /// Bound anew.
    pub invocation: Box<Invocation>,
    pub sealed_params: Vec<u8>,
    /// The binding the approver saw.
    pub shown: Digest,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Approved {
    /// With everyone who said yes.
    Approved(Box<Invocation>),
    /// More people are needed.
    Counted(Box<Invocation>),
    /// This person has said yes already.
    Already,
    Not(Status),
    Expired,
    /// The binding shown to the person is not the row's.
    OtherBinding,
    Missing,
}
