//! Effects that were made and that nobody could check, because too much was under way. Rolling back what may be well would be a guess, and
//! so would calling it well: it stands, in doubt, until somebody has checked it or a person has settled it.

use countersign_core::effect::Check;
use countersign_core::invocation::Failure;
use countersign_core::{Invocation, InvocationId, OrgId, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;

const NOT_VERIFIED: &str = "not_verified";

/// Those this process checks again, and when. After a restart every doubt is reconciled anyway.
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

/// Whether it is known that the effect was made, and only not whether it is well: then the request is not made once more to find out.
pub(crate) fn is_unverified(invocation: &Invocation) -> bool {
    invocation.failure.as_ref().is_some_and(|failure| failure.code == NOT_VERIFIED)
}

pub(crate) fn unverified(unmade: &Check) -> Failure {
    let why = unmade.detail.as_deref().unwrap_or("nobody could look");
    Failure { code: NOT_VERIFIED.into(), message: format!("it was made, and check `{}` was not: {why}", unmade.name) }
}

/// Somebody could check at last, and nothing of it is there any more.
pub(crate) fn gone() -> Failure {
    let message = "it was made, nobody could look at it then, and it is no longer there".to_owned();
    Failure { code: NOT_VERIFIED.into(), message }
}
