//! This process, as the other servers on the same database know it.

use countersign_core::limits::LEASE_FENCE_SECONDS;
use countersign_core::{ServerId, Timestamp};
use parking_lot::Mutex;

/// Whom running calls belong to while this process lives.
pub(crate) struct Lease {
    id: ServerId,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When others last heard of this server, by the database's clock; nothing before it joined them.
    renewed_at: Option<Timestamp>,
    /// The server before it on the same data folder, which is certainly gone.
    earlier: Option<ServerId>,
}

impl Lease {
    pub(crate) fn new(id: ServerId) -> Self {
        Self { id, known: Mutex::default() }
    }

    pub(crate) const fn id(&self) -> &ServerId {
        &self.id
    }

    /// What is written beside a call that this process runs. Nothing, where nobody could see whether it lives.
    pub(crate) fn run_by(&self) -> Option<&str> {
        self.known.lock().renewed_at.map(|_| self.id.as_str())
    }

    pub(crate) fn renewed(&self, at: Timestamp) {
        self.known.lock().renewed_at = Some(at);
    }

    pub(crate) fn ended(&self) {
        self.known.lock().renewed_at = None;
    }

    /// Whether others may soon take this server for gone: then nothing new is begun.
    pub(crate) fn is_fenced(&self, now: Timestamp) -> bool {
        self.known.lock().renewed_at.is_some_and(|at| at.plus_seconds(LEASE_FENCE_SECONDS) <= now)
    }

    pub(crate) fn succeed(&self, earlier: ServerId) {
        self.known.lock().earlier = Some(earlier);
    }

    /// The server before this one; no id is empty.
    pub(crate) fn earlier(&self) -> String {
        self.known.lock().earlier.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}
