//! Who may act, and how far.

use super::Error;
use crate::principal::Standing;
use crate::{Future, OrgId, Principal, PrincipalId, UserId};
use std::sync::Arc;

/// Principals and what they may do now.
pub trait Principals: Send + Sync {
    /// Who this is now; `None` when they can no longer act: disabled, alone or with their org, revoked, ended.
    fn find_principal<'a>(&'a self, org: &'a OrgId, principal: &'a PrincipalId) -> Future<'a, Result<Option<Principal>, Error>>;
    /// How far this person reaches now.
    fn find_standing<'a>(&'a self, org: &'a OrgId, user: &'a UserId) -> Future<'a, Result<Standing, Error>>;
    /// Everyone who may say yes.
    fn list_approvers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<UserId>>, Error>>;
}
