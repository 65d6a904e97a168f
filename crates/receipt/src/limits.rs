//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// How long an idempotency key answers with the earlier receipt.
pub const IDEMPOTENCY_SECONDS: u64 = 24 * 60 * 60;
