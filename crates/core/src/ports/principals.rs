//! Who may act, with which role and up to which band.

use super::Error;
use crate::principal::Standing;
use crate::{ChannelId, Future, InvocationId, OrgId, Principal, PrincipalId, SessionId, Timestamp, TokenId, UserId};
use std::sync::Arc;

/// Principals and what they may do now.
pub trait Principals: Send + Sync {
    /// The principal as it is now; `None` if it can no longer act: it or its org is disabled, or it was revoked or has ended.
    fn find_principal<'a>(&'a self, org: &'a OrgId, principal: &'a PrincipalId) -> Future<'a, Result<Option<Principal>, Error>>;
    /// The same, as it acts in this session: an automation acts there for whoever saved the version that its run is of.
    fn find_principal_in<'a>(
        &'a self,
        org: &'a OrgId,
        principal: &'a PrincipalId,
        session: &'a SessionId,
    ) -> Future<'a, Result<Option<Principal>, Error>>;
    /// The principal that this token stands for, as it is now; `None` if the token no longer works.
    fn find_bearer<'a>(&'a self, org: &'a OrgId, token: &'a TokenId) -> Future<'a, Result<Option<Principal>, Error>>;
    /// The current role and strictest band of this person.
    fn find_standing<'a>(&'a self, org: &'a OrgId, user: &'a UserId) -> Future<'a, Result<Standing, Error>>;
    /// Everyone who may approve calls.
    fn list_approvers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<UserId>>, Error>>;
    /// Signs into the audit log that there is a link that answers a call in the name of whoever the token is of.
    fn record_link(&self, org: &OrgId, link: NewLink) -> Future<'_, Result<(), Error>>;
}

/// A link that answers one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    pub invocation: InvocationId,
    pub by: LinkMaker,
    /// It answers in the name of whoever this token is of, for as long as the token works.
    pub token: TokenId,
    pub expires_at: Timestamp,
}

/// Who made a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkMaker {
    /// The person in whose name it answers.
    Person(PrincipalId),
    /// The server, for a notice of this channel to that person.
    Channel(ChannelId),
}
