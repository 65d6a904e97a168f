//! An approval about to be used.

use countersign_core::{Digest, PrincipalId};

/// An approval that was given for exactly this call and has not been used. Only `hold` can make one.
pub(crate) struct Redeemed {
    approvers: Vec<PrincipalId>,
    binding: Digest,
}

impl Redeemed {
    /// Only after everything the approval is bound to was derived again and found the same.
    pub(super) fn new(approvers: Vec<PrincipalId>, binding: Digest) -> Self {
        Self { approvers, binding }
    }

    pub(crate) fn approvers(&self) -> &[PrincipalId] {
        &self.approvers
    }

    pub(crate) const fn binding(&self) -> Digest {
        self.binding
    }
}
