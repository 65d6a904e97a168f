//! Sessions, and the labels they have collected.

use super::Error;
use crate::session::SessionLabel;
use crate::{Future, InvocationId, OrgId, Session, SessionId};
use std::sync::Arc;

/// Sessions and their labels.
pub trait Sessions: Send + Sync {
    fn find_session<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<Session>, Error>>;
    /// The automations that led to the calls of this session, signed, for requests to others: what they send back proves where it began.
    /// `None` if no run makes the calls.
    fn chain_of<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<String>, Error>>;
    /// The labels of the session.
    fn find_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Arc<Vec<String>>, Error>>;
    /// The labels with the calls that set them, oldest first.
    fn list_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Vec<SessionLabel>, Error>>;
    /// Sets a label. The first call that sets it is stored with it.
    fn label_session<'a>(
        &'a self,
        org: &'a OrgId,
        session: &'a SessionId,
        label: &'static str,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<(), Error>>;
}
