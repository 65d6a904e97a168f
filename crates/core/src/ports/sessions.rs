//! Sessions, and the labels they have collected.

use super::Error;
use crate::session::SessionLabel;
use crate::{Future, InvocationId, OrgId, Session, SessionId};
use std::sync::Arc;

/// Sessions and their labels.
pub trait Sessions: Send + Sync {
    fn find_session<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<Session>, Error>>;
    /// What the session has come to hold.
    fn find_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Arc<Vec<String>>, Error>>;
    /// The same with where it came from, in the order it came.
    fn list_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Vec<SessionLabel>, Error>>;
    /// The first call that brings something in is the one it came from.
    fn label_session<'a>(
        &'a self,
        org: &'a OrgId,
        session: &'a SessionId,
        label: &'static str,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<(), Error>>;
}
