//! Abuse protection: how often a session may invoke.

use crate::{Future, SessionId};

/// The limiter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Admitted,
    Refused { retry_after_ms: u64 },
}

/// Counts invocations per session and minute. When its store is away it admits: it protects from abuse, it does not decide.
pub trait RateLimiter: Send + Sync {
    fn admit<'a>(&'a self, session: &'a SessionId) -> Future<'a, Admission>;
}
