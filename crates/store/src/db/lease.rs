//! The lease of this process: the id by which the other servers on the same database know it, and when it was last renewed.

use countersign_core::limits::{LEASE_FENCE_SECONDS, LEASE_SECONDS, LEASE_SILENT_SECONDS};
use countersign_core::{ServerId, Timestamp};
use parking_lot::Mutex;

/// This process's lease. A call that the process runs is stored with the lease's id.
pub(crate) struct Lease {
    id: ServerId,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When the lease was last renewed, by the database's clock; `None` before this server has joined the others.
    renewed_at: Option<Timestamp>,
    /// The ids of the earlier servers on the same data folder. They are certainly gone.
    earlier: Vec<ServerId>,
}

impl Lease {
    pub(crate) fn new(id: ServerId) -> Self {
        Self { id, known: Mutex::default() }
    }

    pub(crate) const fn id(&self) -> &ServerId {
        &self.id
    }

    /// The server id stored with a call that this process runs. `None` without a lease: then no server could see whether this one is alive.
    pub(crate) fn run_by(&self) -> Option<&str> {
        self.known.lock().renewed_at.map(|_| self.id.as_str())
    }

    pub(crate) fn renewed(&self, at: Timestamp) {
        self.known.lock().renewed_at = Some(at);
    }

    pub(crate) fn ended(&self) {
        self.known.lock().renewed_at = None;
    }

    /// Whether other servers may soon consider this one gone. It must then start nothing new.
    pub(crate) fn is_fenced(&self, now: Timestamp) -> bool {
        self.known.lock().renewed_at.is_some_and(|at| at.plus_seconds(LEASE_FENCE_SECONDS) <= now)
    }

    pub(crate) fn succeed(&self, earlier: ServerId) {
        self.known.lock().earlier.push(earlier);
    }

    /// The ids of the earlier servers in one text, in which a statement looks for an id. All ids are of the same length.
    pub(crate) fn earlier(&self) -> String {
        self.known.lock().earlier.iter().map(ServerId::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// A server last seen at this time or before counts as gone.
pub(crate) const fn gone_before(now: Timestamp) -> Timestamp {
    now.minus_seconds(LEASE_SECONDS)
}

/// A server last seen at this time or before is silent.
pub(crate) const fn silent_before(now: Timestamp) -> Timestamp {
    now.minus_seconds(LEASE_SILENT_SECONDS)
}
