//! Which server works on what, so that of several on one database only one continues what another left behind.

use super::Error;
use crate::{Future, Invocation, InvocationId, OrgId, Status};

/// Claims of this server on running and unfinished invocations.
pub trait Claims: Send + Sync {
    /// This server begins its work: from here on what it runs is known to be its own, for as long as it renews its lease. Whether no
    /// other server works on this database: only then is everything that is `running` left over from a crash.
    fn join(&self) -> Future<'_, Result<bool, Error>>;
    /// Every org, for background loops; each further read is by org again.
    fn list_orgs(&self) -> Future<'_, Result<Vec<OrgId>, Error>>;
    /// At most 100 running invocations that no other live server is busy with, those of servers that are gone and this one's own, oldest
    /// first, from behind this one. Whether it is busy with one of its own it must know itself.
    fn list_left_behind<'a>(&'a self, org: &'a OrgId, after: Option<&'a InvocationId>) -> Future<'a, Result<Vec<Invocation>, Error>>;
    /// Takes up an invocation in this status that no live server is busy with. Whether it is this server's: then no other asks about it.
    /// One that was approved, and is started by nobody but who takes it up, keeps since when.
    fn claim<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, status: Status) -> Future<'a, Result<bool, Error>>;
    /// Lets go of an invocation in doubt, so that another server may ask about it.
    fn release<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<(), Error>>;
}
