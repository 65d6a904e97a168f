//! The port for rate limiting: how often a session may invoke.

use crate::{Future, SessionId};

/// The limiter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Admitted,
    Refused { retry_after_ms: u64 },
}

/// Counts invocations per session and minute. It admits calls while its store is unavailable: it protects from abuse and is no access rule.
pub trait RateLimiter: Send + Sync {
    fn admit<'a>(&'a self, session: &'a SessionId) -> Future<'a, Admission>;
}
