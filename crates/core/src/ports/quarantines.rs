//! Calls that were too dangerous to run, kept sealed for review.

use super::Error;
use crate::quarantine::{Quarantine, QuarantineState};
use crate::{Digest, Future, InvocationId, OrgId, PrincipalId};

/// Quarantines and a person's decision on them.
pub trait Quarantines: Send + Sync {
    fn find_quarantine<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Quarantine>, Error>>;
    /// The sealed content of a quarantined call; `None` once it was discarded or has expired.
    fn find_quarantined<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// Records that a person looks at the content of a quarantined call, before they see it.
    fn look_at_quarantined<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
        by: &'a PrincipalId,
    ) -> Future<'a, Result<(), Error>>;
    /// Ends a quarantine with a person's decision; `None` if there is no such quarantine.
    fn settle_quarantine<'a>(&'a self, org: &'a OrgId, settling: Settling) -> Future<'a, Result<Option<Settled>, Error>>;
}

/// A person's decision on a quarantine.
#[derive(Clone, Debug)]
pub struct Settling {
    pub invocation: InvocationId,
    /// `Released` or `Discarded`.
    pub state: QuarantineState,
    pub reason: String,
    pub by: PrincipalId,
    /// The digest of the content they looked at, if they sent it.
    pub digest: Option<Digest>,
    /// The new invocation that a release starts.
    pub released_as: Option<InvocationId>,
}

/// The result of a decision on a quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Done(Box<Quarantine>),
    /// It was already released or discarded, or it has expired.
    Not(QuarantineState),
    /// Its content is not the one that the person looked at.
    OtherPayload,
}
