//! Calls that were too dangerous to run, kept sealed for review.

use super::Error;
use crate::quarantine::{Quarantine, QuarantineState};
use crate::{Digest, Future, InvocationId, OrgId, PrincipalId};

/// Quarantines and a person's decision on them.
pub trait Quarantines: Send + Sync {
    fn find_quarantine<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Quarantine>, Error>>;
    /// What a quarantined call held; `None` once it was discarded or its time ran out.
    fn find_quarantined<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// Tells that somebody looks at what a quarantined call held, before they do.
    fn look_at_quarantined<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
        by: &'a PrincipalId,
    ) -> Future<'a, Result<(), Error>>;
    /// Ends a quarantine with a person's word; `None` when there is no such quarantine.
    fn settle_quarantine<'a>(&'a self, org: &'a OrgId, settling: Settling) -> Future<'a, Result<Option<Settled>, Error>>;
}

/// A person's word on a quarantine.
#[derive(Clone, Debug)]
pub struct Settling {
    pub invocation: InvocationId,
    /// `Released` or `Discarded`.
    pub state: QuarantineState,
    pub reason: String,
    pub by: PrincipalId,
    /// What was looked at, where they say so.
    pub digest: Option<Digest>,
    /// The new invocation a release starts.
    pub released_as: Option<InvocationId>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Done(Box<Quarantine>),
    /// It is no longer held.
    Not(QuarantineState),
    /// It holds something else than what was looked at.
    OtherPayload,
}
