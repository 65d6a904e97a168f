//! Effects that were made and that nobody could look at, because too much was under way. Taking back what may be well would be a guess, and
//! so would calling it well: it stands, in doubt, until somebody has looked or a person has said what it is.

use crate::execute::Done;
use crate::remedy::has_effect;
use crate::verify::{Looked, Verified};
use crate::{Error, Pipeline};
use countersign_core::effect::Check;
use countersign_core::invocation::Failure;
use countersign_core::ledger::Row;
use countersign_core::limits::{RECOVERED_AT_ONCE, UNVERIFIED_SECONDS};
use countersign_core::{Invocation, InvocationId, OrgId, Status, Timestamp};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use std::collections::HashMap;

const NOT_VERIFIED: &str = "not_verified";

/// Those this process looks at again, and when. After a restart every doubt is asked about anyway.
#[derive(Default)]
pub(crate) struct Unverified(Mutex<HashMap<InvocationId, (OrgId, Timestamp)>>);

impl Unverified {
    fn take_due(&self, now: Timestamp) -> Vec<(InvocationId, OrgId)> {
        self.0.lock().extract_if(|_, (_, at)| *at <= now).map(|(id, (org, _))| (id, org)).collect()
    }
}

impl Pipeline {
    /// The end of looking where nobody could. A read has no effect to be in doubt about: it failed, and may be made again.
    pub(crate) async fn leave_unverified(&self, mut done: Box<Done>, failure: Failure) -> Result<Looked, Error> {
        if !has_effect(&done) {
            return Ok(Verified::looked(done, Some(failure)));
        }
        if let Ok(output) = &done.answer
            && let Some(evidence) = &output.evidence
        {
            done.invocation.evidence = Some(evidence.clone());
        }
        done.invocation.failure = Some(failure);
        self.look_later(&done.invocation.org, &done.invocation.id);
        if done.row == Row::From(Status::InDoubt) {
            // It was in doubt before, and its row says so.
            return Ok(Looked::InDoubt(done.invocation));
        }
        self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt)
    }

    fn look_later(&self, org: &OrgId, id: &InvocationId) {
        let at = self.now().plus_seconds(UNVERIFIED_SECONDS);
        self.inner.unverified.0.lock().insert(id.clone(), (org.clone(), at));
    }

    /// Every few seconds: looks again at what nobody could look at, once its time has come.
    pub async fn look_at_unverified(&self) {
        let due = self.inner.unverified.take_due(self.now());
        stream::iter(due).for_each_concurrent(RECOVERED_AT_ONCE, |(id, org)| self.look_once_more(org, id)).await;
    }

    async fn look_once_more(&self, org: OrgId, id: InvocationId) {
        if let Ok(Some(doubted)) = self.ledger().find_invocation(&org, &id).await
            && doubted.status == Status::InDoubt
        {
            self.ask_about(doubted).await;
        }
        // A store that is away, and a source that cannot be asked, may be back the next time.
        match self.ledger().find_invocation(&org, &id).await {
            Ok(Some(now)) if now.status != Status::InDoubt => {}
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => self.look_later(&org, &id),
        }
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

/// Somebody has looked at last, and nothing of it is there any more.
pub(crate) fn gone() -> Failure {
    let message = "it was made, nobody could look at it then, and it is no longer there".to_owned();
    Failure { code: NOT_VERIFIED.into(), message }
}
