//! Who may act, with which role and up to which band.

use super::Error;
use crate::principal::Standing;
use crate::{Future, OrgId, Principal, PrincipalId, UserId};
use std::sync::Arc;

/// Principals and what they may do now.
pub trait Principals: Send + Sync {
    /// The principal as it is now; `None` if it can no longer act: it or its org is disabled, or it was revoked or has ended.
    fn find_principal<'a>(&'a self, org: &'a OrgId, principal: &'a PrincipalId) -> Future<'a, Result<Option<Principal>, Error>>;
    /// The current role and strictest band of this person.
    fn find_standing<'a>(&'a self, org: &'a OrgId, user: &'a UserId) -> Future<'a, Result<Standing, Error>>;
    /// Everyone who may approve calls.
    fn list_approvers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<UserId>>, Error>>;
}
