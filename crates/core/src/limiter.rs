//! The port for rate limiting: how often a session, a person and a space may invoke.

use crate::{Future, SessionId, SpaceId, UserId};

/// The limiter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Admitted,
    Refused { retry_after_ms: u64, limited: Limited },
}

/// Whose limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    Session,
    /// A person, with their agents and services.
    Person,
    Space,
}

impl Limited {
    /// Whose limit it is, for a sentence about a call of this session.
    pub fn of(self, session: &SessionId) -> String {
        match self {
            Self::Session => format!("session `{session}`"),
            Self::Person => format!("the person behind session `{session}`, with all that acts for them,"),
            Self::Space => format!("the space of session `{session}`"),
        }
    }
}

/// Invocations in a minute. What is absent is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    pub session: u32,
    pub person: Option<u32>,
    pub space: Option<u32>,
}

impl From<u32> for RateLimits {
    fn from(session: u32) -> Self {
        Self { session, person: None, space: None }
    }
}

/// Whom one call counts for.
#[derive(Clone, Copy, Debug)]
pub struct CountedFor<'a> {
    pub session: &'a SessionId,
    /// The person who made it, or for whom it was made.
    pub person: Option<&'a UserId>,
    /// Absent where only the session is known.
    pub space: Option<&'a SpaceId>,
}

impl CountedFor<'_> {
    /// What is counted, with its limit and the key it is counted under.
    pub fn limits(&self, limits: &RateLimits) -> Vec<(Limited, u32, String)> {
        let session = Some((Limited::Session, limits.session, self.session.to_string()));
        let person = self.person.zip(limits.person).map(|(person, max)| (Limited::Person, max, person.to_string()));
        let space = self.space.zip(limits.space).map(|(space, max)| (Limited::Space, max, space.to_string()));
        [session, person, space].into_iter().flatten().collect()
    }
}

impl<'a> From<&'a SessionId> for CountedFor<'a> {
    fn from(session: &'a SessionId) -> Self {
        Self { session, person: None, space: None }
    }
}

/// Counts invocations per session, person, space and minute. A call that one of the limits refuses counts for none of them. It admits calls
/// while its store is unavailable: it protects from abuse and is no access rule.
pub trait RateLimiter: Send + Sync {
    fn admit<'a>(&'a self, call: CountedFor<'a>) -> Future<'a, Admission>;
}
