//! Firings and runs. Whoever works on a run has a lease on it, and every write of a run names the lease: a worker that lost it writes nothing.

use super::Error;
use super::events::Cause;
use crate::automation::{Firing, FiringReason, Tick, TriggerType};
use crate::run::{Run, StepRecord, TriggerPayload};
use crate::{
    Amount, AutomationId, Digest, EventId, FiringId, Future, Invocation, InvocationId, OrgId, PrincipalId, RunId, SessionId, Timestamp,
    UserId,
};
use serde_json::Value;

/// Firings, runs and their leases.
pub trait Runs: Send + Sync {
    /// Records a firing and the run that it starts, if it starts one, in one write.
    fn fire(&self, firing: NewFiring) -> Future<'_, Result<Fired, Error>>;
    /// Gathers an event of a trigger whose events start one run together.
    fn gather(&self, event: GatheredEvent) -> Future<'_, Result<Gathered, Error>>;
    /// At most `limit` gatherings that are due, of every org, the longest due first.
    fn list_due_gatherings(&self, limit: u32) -> Future<'_, Result<Vec<Gathering>, Error>>;
    /// When the next gathering is due, of any org.
    fn next_gathering_at(&self) -> Future<'_, Result<Option<Timestamp>, Error>>;
    /// Fires what was gathered, as one firing. Returns `None`, and changes nothing, if more was gathered since it was read, or if another
    /// server was first.
    fn fire_gathered(&self, fired: FiredGathering) -> Future<'_, Result<Option<Fired>, Error>>;
    /// How many runs of every org wait for a worker; those above `most` are not counted.
    fn count_due_runs(&self, most: u32) -> Future<'_, Result<u32, Error>>;
    /// Leases runs of these queues that are due, of every org: spaces take turns, and in each the longest due come first. They are running
    /// from then on.
    fn claim_runs<'a>(&'a self, queues: &'a [String], limit: u32) -> Future<'a, Result<Vec<Lease>, Error>>;
    /// Keeps the leases for longer. Returns those that are still held, and which of them are to be cancelled.
    fn keep_leases(&self, leases: Vec<Lease>) -> Future<'_, Result<Vec<KeptLease>, Error>>;
    /// Gives a run back that was not begun: it is due at once.
    fn give_back(&self, lease: Lease) -> Future<'_, Result<(), Error>>;
    /// The run with its inputs, as it was given them.
    fn find_run<'a>(&'a self, org: &'a OrgId, run: &'a RunId) -> Future<'a, Result<Option<Run>, Error>>;
    /// What the trigger of a run was given, as it was given it; `None` if that is not kept, or no longer.
    fn find_trigger_payload<'a>(&'a self, org: &'a OrgId, run: &'a RunId) -> Future<'a, Result<Option<TriggerPayload>, Error>>;
    /// The steps that have ended, in order.
    fn list_steps<'a>(&'a self, org: &'a OrgId, run: &'a RunId) -> Future<'a, Result<Vec<StepRecord>, Error>>;
    /// Saves how far a run came. Returns false, and writes nothing, if the lease is lost.
    fn save_run(&self, saved: SavedRun) -> Future<'_, Result<bool, Error>>;
    /// The same, not at once but with the next write of anybody, or after some milliseconds. It is queued when this returns: no write of this
    /// server that is queued later is kept before it.
    fn save_run_along(&self, saved: SavedRun) -> Future<'static, Result<bool, Error>>;
    /// Reserves what a call of the run may cost, before it is made. The same key is reserved once.
    fn reserve_budget(&self, reserve: ReserveBudget) -> Future<'_, Result<Reserved, Error>>;
    /// Says what a reserved call did cost. What was settled stays.
    fn settle_budget<'a>(&'a self, org: &'a OrgId, run: &'a RunId, key: &'a str, spent: Amount) -> Future<'a, Result<(), Error>>;
    /// What a call of this action did cost on average lately; `None` if none was paid.
    fn mean_cost<'a>(&'a self, org: &'a OrgId, action: &'a str) -> Future<'a, Result<Option<Amount>, Error>>;
    /// How long 95 of 100 of the last calls of an action took, if there were any.
    fn measured_p95_ms<'a>(&'a self, org: &'a OrgId, action: &'a str) -> Future<'a, Result<Option<u64>, Error>>;
    /// Whether a run waits for one of these calls. The write that ends a call has its run go on.
    fn is_waited_for<'a>(&'a self, org: &'a OrgId, invocations: &'a [InvocationId]) -> Future<'a, Result<bool, Error>>;
    /// Asks for the end of a run. Its worker ends it, or the next that takes it up.
    fn cancel_run<'a>(&'a self, org: &'a OrgId, run: &'a RunId, by: &'a PrincipalId) -> Future<'a, Result<Option<Run>, Error>>;
    /// Frees runs whose worker has gone. A run that was freed too often is quarantined. Returns how many were freed.
    fn free_lost_runs(&self) -> Future<'_, Result<u64, Error>>;
    /// Frees everything that is leased: this is the only worker, and it has just begun.
    fn free_all_runs(&self) -> Future<'_, Result<u64, Error>>;
    /// Frees what earlier servers on this data folder have leased: they are certainly gone.
    fn free_earlier_runs(&self) -> Future<'_, Result<u64, Error>>;
    /// Wakes runs that wait for a call which ended a while ago without their being woken, at most 100 of every org. Returns how many.
    fn wake_forgotten_runs(&self) -> Future<'_, Result<u64, Error>>;
    /// Lets runs go on that wait behind another which is not there, at most 100 of every org. Returns how many.
    fn promote_stuck_runs(&self) -> Future<'_, Result<u64, Error>>;
    /// The call of this session that succeeded under this idempotency key, however long ago: the key itself expires.
    fn find_made<'a>(&'a self, org: &'a OrgId, session: &'a SessionId, key: &'a str) -> Future<'a, Result<Option<Invocation>, Error>>;
    /// The whole result of a call of a run, redacted; what the invocation keeps may be truncated.
    fn find_whole_result<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Value>, Error>>;
}

/// One occurrence of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFiring {
    pub id: FiringId,
    pub org: OrgId,
    pub automation: AutomationId,
    pub trigger: Option<String>,
    pub occasion: Occasion,
    /// Why it starts a run, or why not.
    pub reason: FiringReason,
    pub detail: Option<String>,
    /// The runs that led to it.
    pub cause: Cause,
    /// Absent: it starts nothing, for that reason.
    pub start: Option<Box<Start>>,
}

/// What made a trigger fire. The same occasion never starts a second run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occasion {
    Tick(Tick),
    Event(EventId),
    /// A request with an idempotency key, and the digest of what it asked for.
    Key {
        key: String,
        fingerprint: Digest,
    },
    /// A request without a key.
    Request,
}

/// What a firing starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub run: RunId,
    pub session: SessionId,
    pub version: u32,
    pub definition: Digest,
    pub trigger_type: TriggerType,
    pub inputs: Value,
    /// The same, redacted.
    pub shown_inputs: Value,
    /// What they were mapped from.
    pub payload: Option<TriggerPayload>,
    pub queue: String,
    pub concurrency: Concurrency,
    /// At most so many firings of the trigger start a run in that time.
    pub rate: Option<Rate>,
    pub rerun_of: Option<RunId>,
    /// Steps that a rerun does not repeat.
    pub copied: Vec<StepRecord>,
    /// Whether somebody outside may have written its inputs.
    pub from_outside: bool,
    /// Absent: a trigger fired. What somebody asks for is started although the automation is paused.
    pub asked_by: Option<Asker>,
}

/// Who asked for a run by name, or for a run once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub by: PrincipalId,
    /// The person behind them.
    pub person: Option<UserId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub max: u32,
    pub per_seconds: u32,
}

/// What becomes of a firing while another run of the automation has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    DropIfRunning,
    /// It waits behind the others, unless that many wait already.
    Queue {
        max: u32,
        drop: Dropped,
    },
    AllowParallel,
}

/// Which run does not wait if the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    Newest,
    Oldest,
}

/// What became of a firing.
#[derive(Clone, Debug, PartialEq)]
pub enum Fired {
    New(Firing),
    /// The same occasion had fired before: this is what it came to.
    Earlier(Firing),
    /// The idempotency key was used for something else, by this firing.
    KeyReused(Firing),
    UnknownAutomation,
}

/// What a call of a run may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveBudget {
    pub lease: Lease,
    /// Names the call.
    pub key: String,
    pub action: String,
    pub most: Amount,
    /// What the whole run may cost.
    pub cap: Amount,
}

/// Whether a call may be paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Done,
    /// With it the run could cost more than it may.
    TooMuch,
    /// The lease is lost.
    Lost,
}

/// How the events of a trigger start one run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// The last one starts it, once no further one has come for so long.
    Debounce { seconds: u32 },
    /// All of them start it, once there are so many, or `TRIGGER_BATCH_BYTES_MAX` of them, or so long after the first.
    Batch { max: u32, window_seconds: u32 },
}

/// An event to gather.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatheredEvent {
    pub org: OrgId,
    pub automation: AutomationId,
    pub trigger: String,
    /// Where it is in the org's log. Events come in that order, so one that is not behind the last was gathered before.
    pub seq: i64,
    /// How long it is as JSON.
    pub bytes: u64,
    pub gather: Gather,
}

/// What became of an event to gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// It starts a run then, with the others.
    Until(Timestamp),
    /// It was gathered before.
    Known,
    /// As many as may be are gathered already, and have not been fired. It is not among them.
    Full,
}

/// Events that start one run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathering {
    pub org: OrgId,
    pub automation: AutomationId,
    pub trigger: String,
    /// The firing that they will be.
    pub firing: FiringId,
    /// Where they are in the org's log; of a debounced trigger, the last one alone.
    pub events: Vec<i64>,
    /// How many there were.
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

/// What a gathering comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct FiredGathering {
    pub gathering: Gathering,
    /// Its occasion is the last event. Absent: the trigger is no longer there, and nothing is fired.
    pub firing: Option<Box<NewFiring>>,
    /// Why the other events started no run of their own.
    pub others: FiringReason,
}

/// The right to work on a run for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub org: OrgId,
    pub run: RunId,
    /// Grows with every lease of the run, and never starts again.
    pub token: i64,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLease {
    pub lease: Lease,
    pub is_cancelled: bool,
}

/// How far a run came.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRun {
    pub lease: Lease,
    pub run: Box<Run>,
    /// Steps that have ended since it was saved last.
    pub steps: Vec<StepRecord>,
    pub then: Then,
}

/// What becomes of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    GoOn,
    /// It is given up; the run is due again then, or when it is woken.
    Park {
        due_at: Option<Timestamp>,
    },
    /// It is given up for good: the run has ended.
    End,
}
