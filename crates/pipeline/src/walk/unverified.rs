//! Effects that happened and could not be checked, because too many calls were under way. Neither a rollback nor a success would be
//! justified, so such a call stays in doubt until it has been checked or a person has settled it.

use countersign_core::effect::Check;
use countersign_core::invocation::Failure;
use countersign_core::{Invocation, InvocationId, OrgId, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;

const NOT_VERIFIED: &str = "not_verified";

/// The calls that this process will check again, and when. After a restart every call in doubt is reconciled anyway.
#[derive(Default)]
pub(crate) struct Unverified(Mutex<HashMap<InvocationId, (OrgId, Timestamp)>>);

impl Unverified {
    pub(crate) fn check_at(&self, org: &OrgId, id: &InvocationId, at: Timestamp) {
        self.0.lock().insert(id.clone(), (org.clone(), at));
    }

    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<(InvocationId, OrgId)> {
        self.0.lock().extract_if(|_, (_, at)| *at <= now).map(|(id, (org, _))| (id, org)).collect()
    }
}

/// Whether the effect is known to have happened, and only its checks are missing. Then the request is not sent again to find out.
pub(crate) fn is_unverified(invocation: &Invocation) -> bool {
    invocation.failure.as_ref().is_some_and(|failure| failure.code == NOT_VERIFIED)
}

pub(crate) fn unverified(unmade: &Check) -> Failure {
    let why = unmade.detail.as_deref().unwrap_or("nobody could look");
    Failure { code: NOT_VERIFIED.into(), message: format!("it was made, and check `{}` was not: {why}", unmade.name) }
}

/// The failure if the effect could finally be checked and is no longer there.
pub(crate) fn gone() -> Failure {
    let message = "it was made, nobody could look at it then, and it is no longer there".to_owned();
    Failure { code: NOT_VERIFIED.into(), message }
}
