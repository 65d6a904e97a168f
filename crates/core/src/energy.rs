//! The port to the host's energy counters.

/// Tells how much energy the host's processors use.
pub trait Energy: Send + Sync {
    /// What they have used so far, in microjoules, from some moment on; it never falls. `None` if the host does not tell it now.
    fn total_uj(&self) -> Option<u64>;
}
