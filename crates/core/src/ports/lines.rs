//! Lines: a caller who stays until the result of its call comes, and what becomes of the call when the caller leaves before that.
//!
//! A row exists for a call that was held or began to write while its caller waited, from that write on, and for one whose caller has left.
//! No row means that nobody can ask again for this call: its result or a reference to it was delivered, its caller never waited, or it is a
//! read that ran at once.

use super::Error;
use crate::{Digest, Future, InvocationId, OrgId, SessionId, Timestamp};

/// Callers who wait, and callers who have left.
pub trait Lines: Send + Sync {
    /// Whether the caller has left, or the server that had the line is gone, and the call was not asked for again. Such a call does not run.
    fn has_left<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>>;
    /// Gives the caller on this line the oldest call of the session with this identity that was left, or whose ticket nobody has shown, if it
    /// can still be answered or its result is still kept. Of several callers one gets it. Asked again on the same line, the answer is the same.
    fn join_left(&self, again: AskedAgain) -> Future<'_, Result<Joined, Error>>;
    /// The caller has left before anything was delivered. Does nothing if another caller has joined the call since.
    fn leave(&self, left: NewLine) -> Future<'_, Result<(), Error>>;
    /// Something was delivered: the result, or a reference. Does nothing if the call is on another line by now.
    fn hang_up<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, line: &'a str) -> Future<'a, Result<(), Error>>;
    /// From now on the caller goes on with this ticket, once. Until then it has not left. If it asks again without the ticket, it joins.
    fn give_ticket(&self, ticketed: NewLine, ticket: Digest) -> Future<'_, Result<(), Error>>;
    /// Gives the call to the caller on this line who shows its ticket. `None`: there is no such ticket, or it was used on another line.
    fn take_ticket<'a>(&'a self, org: &'a OrgId, ticket: Digest, line: &'a str) -> Future<'a, Result<Option<InvocationId>, Error>>;
}

/// A call that may be one that was left, asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedAgain {
    pub org: OrgId,
    pub session: SessionId,
    /// The digest of what makes two calls the same.
    pub identity: Digest,
    /// The line on which it is asked for now.
    pub line: String,
    /// How long the result of a call that has ended is kept.
    pub kept_seconds: u64,
    /// Since when it is waited for another server; absent at first.
    pub since: Option<Timestamp>,
}

/// What a caller who may be asking again has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// This call, which is the caller's from now on.
    Call(InvocationId),
    /// Nothing yet. Another server has a line with the same call, and has not been heard of since then: its caller may have left, or it may be
    /// gone itself, without that being stored.
    NotKnown { since: Timestamp },
    /// Nothing: whoever asked for the same is still there.
    Nothing,
}

/// The line on which the caller of a call waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLine {
    pub org: OrgId,
    pub session: SessionId,
    pub invocation: InvocationId,
    /// The digest of what makes two calls the same.
    pub identity: Digest,
    /// Names the line, so that nobody else's end of a line is taken for this one's.
    pub line: String,
    /// How long the result of a call that has ended is kept for a caller who asks again.
    pub kept_seconds: u64,
}
