//! Circuit breakers: targets that fail again and again.

use super::Error;
use crate::breaker::{Breaker, BreakerKey, CountedFailure};
use crate::{Future, OrgId};
use std::sync::Arc;

/// Circuit breakers of an org.
pub trait Breakers: Send + Sync {
    /// Every target that has failed since it last worked.
    fn list_breakers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Breaker>>, Error>>;
    /// Counts a failure of a target. If there are too many keys with a caller's label, a new one is not counted.
    fn break_once<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, failure: CountedFailure<'a>) -> Future<'a, Result<(), Error>>;
    /// The target works: its failures are forgotten.
    fn close_breaker<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey) -> Future<'a, Result<(), Error>>;
    /// Lets one call through to a target whose waiting time has passed. Returns whether it is this call.
    fn claim_probe<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, lease_seconds: u64) -> Future<'a, Result<bool, Error>>;
}
