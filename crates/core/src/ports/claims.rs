//! Which server works on which call, so that of several servers on one database only one continues a call that was left behind.

use super::Error;
use crate::{Future, Invocation, InvocationId, OrgId, Status};

/// Claims of this server on running and unfinished invocations.
pub trait Claims: Send + Sync {
    /// Registers this server: from here on the calls it runs are marked as its own, for as long as it renews its lease. Returns whether no
    /// other server uses this database: only then is everything that is `running` left over from a crash.
    fn join(&self) -> Future<'_, Result<bool, Error>>;
    /// Every org, for background loops; each further read is for one org again.
    fn list_orgs(&self) -> Future<'_, Result<Vec<OrgId>, Error>>;
    /// At most 100 running invocations that no other live server is running, oldest first, after this one: those of servers that are gone,
    /// and this server's own. The caller must know which of its own it is still running.
    fn list_left_behind<'a>(&'a self, org: &'a OrgId, after: Option<&'a InvocationId>) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// Claims an invocation in this status that no live server is working on. Returns whether this server now has it; then no other
    /// reconciles it. For an approved invocation, the time of the first claim is stored.
    fn claim<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, status: Status) -> Future<'a, Result<bool, Error>>;
    /// Claims a running invocation of another server that is silent (`limits::LEASE_SILENT_SECONDS`). That server may not be gone: its
    /// effect may still happen, but it records no end of the call from here on.
    fn claim_silent<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>>;
    /// Releases an invocation in doubt, so that another server may reconcile it, or an approved one whose approval is kept, so that another
    /// server may start it.
    fn release<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<(), Error>>;
}
