//! The loops in the background, which take what is left over a few rows at a time.

/// The most calls or batches that a background loop takes at a time; it comes back for more.
pub(crate) const SWEEP_ROWS: i64 = 100;
