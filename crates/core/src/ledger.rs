//! What the pipeline asks of the store. Every method is one transaction: it happens whole, durably, or not at all.
//! Entries given here are signed and chained inside that transaction; the caller never sees a key or a position first.

use crate::batch::BatchStatus;
use crate::breaker::{Breaker, BreakerKey, LetThrough};
use crate::decision::{Drift, Lock, Mode};
use crate::grant::GrantTerms;
use crate::invocation::Answer;
use crate::policies::PoliciesInForce;
use crate::principal::Standing;
use crate::quarantine::{Caught, Holds, Quarantine, QuarantineState};
use crate::session::SessionLabel;
use crate::switch::Switch;
use crate::{
    ActionId, ApprovalId, AutomationId, Batch, BatchId, Digest, EventId, Future, Grant, GrantId, IntentId, Invocation, InvocationId, OrgId,
    Principal, PrincipalId, ReceiptId, Session, SessionId, Space, SpaceId, Status, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The store could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Away, full or read-only. Nothing was written; retrying is safe.
    #[error("the store is not available: {message}; nothing was written, retrying is safe")]
    Unavailable { message: String },
    /// The connection was lost while committing: it may or may not have been written.
    #[error("the store went away during a commit: {message}; it may have been written, read before retrying")]
    CommitUnknown { message: String },
    /// What was read does not make sense, or a rule of the schema refused a write that should be legal.
    #[error("the store holds something unexpected: {message}")]
    Corrupt { message: String },
}

impl Error {
    /// Whether trying the same call again may succeed and cannot do harm.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::CommitUnknown { .. } | Self::Corrupt { .. } => false,
        }
    }
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

/// An event to be published in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    pub id: EventId,
    /// Dotted, past tense: `invocation.succeeded`.
    pub name: &'static str,
    /// Events with the same key are delivered in order.
    pub key: String,
    /// JSON.
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

/// A batch that was just asked for.
#[derive(Clone, Debug)]
pub struct NewBatch {
    pub batch: Batch,
    /// What its parts ask for, until it ends.
    pub sealed_parts: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedBatch {
    New(Batch),
    /// The one that has the key.
    Earlier(Batch),
}

/// How a batch ended.
#[derive(Clone, Debug)]
pub struct EndBatch {
    pub batch: Batch,
    pub id: ReceiptId,
    /// Canonical JSON.
    pub body: String,
    pub event: EventDraft,
}

/// The rows of the mode cascade for one action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeRows {
    pub automation: Option<ModeRow>,
    pub org: Option<ModeRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeRow {
    pub mode: Mode,
    /// Of an org's row only.
    pub lock: Lock,
    /// Grows with every change of any mode in the org.
    pub version: i64,
}

/// A definition kept for whoever verifies receipts later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedDefinition {
    pub digest: Digest,
    /// Canonical JSON.
    pub body: String,
}

/// The definition of an action that a person reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub structural: Digest,
    pub textual: Digest,
    /// Whether a change of words alone matters.
    pub wording: Wording,
    /// The other definition that was seen last, where one was.
    pub seen: Option<(Digest, Digest)>,
}

/// Whether an action whose words have changed waits for a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    #[default]
    Reviewed,
    /// A person said that changes of words may pass.
    Ignored,
    /// Somebody let the action run as it was, and nobody has read it: what differs is drift, and what was found in it still asks.
    Unread,
}

/// A definition that is not the reviewed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDrift {
    pub action: ActionId,
    pub drift: Drift,
    pub structural: Digest,
    pub textual: Digest,
}

/// A person's word on a quarantine.
#[derive(Clone, Debug)]
pub struct Settling {
    pub invocation: InvocationId,
    /// `Released` or `Discarded`.
    pub state: QuarantineState,
    pub reason: String,
    pub by: PrincipalId,
    /// What was looked at, where they say so.
    pub digest: Option<Digest>,
    /// The new invocation a release starts.
    pub released_as: Option<InvocationId>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Done(Box<Quarantine>),
    /// It is no longer held.
    Not(QuarantineState),
    /// It holds something else than what was looked at.
    OtherPayload,
}

/// Everything the pipeline asks of the store.
pub trait Ledger: Send + Sync {
    /// The database's clock: it alone decides expiry.
    fn now(&self) -> Future<'_, Result<Timestamp, Error>>;
    fn find_session<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<Session>, Error>>;
    fn find_space<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Option<Space>, Error>>;
    /// Who this is now; `None` when they can no longer act: disabled, revoked, ended.
    fn find_principal<'a>(&'a self, org: &'a OrgId, principal: &'a PrincipalId) -> Future<'a, Result<Option<Principal>, Error>>;
    fn find_modes<'a>(
        &'a self,
        org: &'a OrgId,
        automation: Option<&'a AutomationId>,
        action: &'a ActionId,
    ) -> Future<'a, Result<ModeRows, Error>>;
    /// Grows with every change of any rule of the org. Read it before the rules: what then changes is noticed.
    fn rules_version<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>>;
    /// The same, asked of the database itself, for what no later write compares: the rules read after it are those in force at this moment.
    fn rules_version_anew<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>>;
    /// Every kill switch that is on.
    fn list_switches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Switch>>, Error>>;
    fn find_pin<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<Pin>, Error>>;
    /// The org's policies in force.
    fn find_policies<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<PoliciesInForce>, Error>>;
    /// The purposes this person has given leave for in this space, now.
    fn find_purposes<'a>(&'a self, org: &'a OrgId, user: &'a UserId, space: &'a SpaceId) -> Future<'a, Result<Vec<String>, Error>>;
    /// Whether this action may reach from the space into the other, named as the params name it.
    fn is_crossing<'a>(&'a self, org: &'a OrgId, from: &'a SpaceId, to: &'a str, action: &'a ActionId) -> Future<'a, Result<bool, Error>>;
    /// How far this person reaches now.
    fn find_standing<'a>(&'a self, org: &'a OrgId, user: &'a UserId) -> Future<'a, Result<Standing, Error>>;
    /// Everyone who may say yes.
    fn list_approvers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<UserId>>, Error>>;
    /// Texts that were laid out to be stolen.
    fn list_canary_texts<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<String>>, Error>>;
    /// What the session has come to hold.
    fn find_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Arc<Vec<String>>, Error>>;
    /// The same with where it came from, in the order it came.
    fn list_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Vec<SessionLabel>, Error>>;
    /// The first call that brings something in is the one it came from.
    fn label_session<'a>(
        &'a self,
        org: &'a OrgId,
        session: &'a SessionId,
        label: &'static str,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<(), Error>>;
    fn find_quarantine<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Quarantine>, Error>>;
    /// What a quarantined call held; `None` once it was discarded or its time ran out.
    fn find_quarantined<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// Tells that somebody looks at what a quarantined call held, before they do.
    fn look_at_quarantined<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
        by: &'a PrincipalId,
    ) -> Future<'a, Result<(), Error>>;
    /// Ends a quarantine with a person's word; `None` when there is no such quarantine.
    fn settle_quarantine<'a>(&'a self, org: &'a OrgId, settling: Settling) -> Future<'a, Result<Option<Settled>, Error>>;
    /// A person stands for this definition from here on.
    fn review<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>>;
    /// The same, unless there is a definition already that somebody stands for.
    fn pin_first<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>>;
    /// Grants that could stand in for a person now, the narrowest first.
    fn find_grants<'a>(&'a self, session: &'a Session, action: &'a ActionId) -> Future<'a, Result<Vec<Grant>, Error>>;
    /// At most 1,000 pending invocations of this action, oldest first.
    fn list_pending_of<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// Notes that an action is no longer what was reviewed: its grants are revoked and what waits for it ends, all at once.
    /// Returns how each of these ended, in their order; nothing happens when the drift is known already.
    fn drift<'a>(&'a self, org: &'a OrgId, drift: NewDrift, ends: Vec<Arc<Finish>>) -> Future<'a, Result<Vec<Finished>, Error>>;
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
    /// This server begins its work: from here on what it runs is known to be its own, for as long as it renews its lease. Whether no
    /// other server works on this database: only then is everything that is `running` left over from a crash.
    fn join(&self) -> Future<'_, Result<bool, Error>>;
    /// At most 100 running invocations that no other live server is busy with, those of servers that are gone and this one's own, oldest
    /// first, from behind this one. Whether it is busy with one of its own it must know itself.
    fn list_left_behind<'a>(&'a self, org: &'a OrgId, after: Option<&'a InvocationId>) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// Takes up an invocation in this status that no live server is busy with. Whether it is this server's: then no other asks about it.
    /// One that was approved, and is started by nobody but who takes it up, keeps since when.
    fn claim<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, status: Status) -> Future<'a, Result<bool, Error>>;
    /// Lets go of an invocation in doubt, so that another server may ask about it.
    fn release<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<(), Error>>;
    /// Every org, for background loops; each further read is by org again.
    fn list_orgs(&self) -> Future<'_, Result<Vec<OrgId>, Error>>;
    /// At most 100 invocations in this status, oldest first, from behind this one.
    fn list_in_status<'a>(
        &'a self,
        org: &'a OrgId,
        status: Status,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// At most 100 invocations in this status whose time has run out by the database's clock, oldest first.
    fn list_expired<'a>(&'a self, org: &'a OrgId, status: Status) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// Keeps a definition under its digest; a second time changes nothing.
    fn archive_definition<'a>(&'a self, org: &'a OrgId, definition: ArchivedDefinition) -> Future<'a, Result<(), Error>>;

    /// Every target that has failed since it last worked.
    fn list_breakers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Breaker>>, Error>>;
    /// Counts a failure of a target. A label that is one too many is left out: nothing is counted under it.
    fn break_once<'a>(
        &'a self,
        org: &'a OrgId,
        key: &'a BreakerKey,
        reason: &'a str,
        let_through: LetThrough,
    ) -> Future<'a, Result<(), Error>>;
    /// A target works: what was counted is forgotten.
    fn close_breaker<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey) -> Future<'a, Result<(), Error>>;
    /// Lets one call through to a target whose time has passed; whether it is this one.
    fn claim_probe<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, lease_seconds: u64) -> Future<'a, Result<bool, Error>>;

    /// Keeps a new batch, unless there is one of the same session under its key.
    fn open_batch(&self, batch: NewBatch) -> Future<'_, Result<OpenedBatch, Error>>;
    fn find_batch<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Batch>, Error>>;
    /// What its parts ask for; `None` once it has ended.
    fn find_sealed_parts<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// At most 100 batches in this status, oldest first.
    fn list_batches_in_status<'a>(&'a self, org: &'a OrgId, status: BatchStatus) -> Future<'a, Result<Vec<Batch>, Error>>;
    /// At most 100 running batches that no live server is busy with, oldest first; this one's own count among them.
    fn list_left_batches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Batch>, Error>>;
    /// Saves how far it has come. `None`: somebody else has saved it since it was read, and nothing was written.
    fn save_batch(&self, batch: Batch) -> Future<'_, Result<Option<Batch>, Error>>;
    /// Saves how it ended, with its receipt and its event. `None` as above.
    fn end_batch(&self, end: EndBatch) -> Future<'_, Result<Option<Batch>, Error>>;

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
