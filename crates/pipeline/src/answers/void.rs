//! Pending calls that a change of the rules has made void. No approval fits them any more, so they end at once, and whoever waits for one
//! is told why.

use crate::error::{Conflict, Error};
use crate::pipeline::Pipeline;
use crate::walk::ending::Ending;
use countersign_core::invocation::DeniedBy;
use countersign_core::ledger::Row;
use countersign_core::{ActionId, Invocation, OrgId, Status};

/// How many pages of pending calls are looked at after one change. What is left ends when somebody answers it.
const PAGES_MAX: usize = 5;

/// Whether a call ended because the rules changed while a person was asked. Made again, it is decided by those in force.
pub fn is_void_by_rules(ended: &Invocation) -> bool {
    ended.denied_by == Some(DeniedBy::Binding) && Conflict::of_void(ended) == Some(Conflict::PolicyMismatch)
}

impl Pipeline {
    /// Ends the pending calls that are void, of one action or of all, and returns how many. `None` if not all of them could be looked at. The
    /// rules have changed already, so an error is only logged.
    pub async fn end_void(&self, org: &OrgId, action: Option<&ActionId>) -> Option<u64> {
        self.end_those_void(org, action).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "pending calls that became void could not all be ended");
            None
        })
    }

    async fn end_those_void(&self, org: &OrgId, action: Option<&ActionId>) -> Result<Option<u64>, Error> {
        let (mut ended, mut after) = (0, None);
        for _page in 0..PAGES_MAX {
            let page = self.ledger().list_in_status(org, Status::Pending, after.as_ref()).await?;
            let Some(last) = page.last().map(|last| last.id.clone()) else { return Ok(Some(ended)) };
            for pending in page.into_iter().filter(|pending| action.is_none_or(|action| *action == pending.action)) {
                match self.end_if_void(pending).await {
                    Ok(is_ended) => ended += u64::from(is_ended),
                    // Somebody answered it meanwhile.
                    Err(Error::Conflict { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            after = Some(last);
        }
        Ok(None)
    }

    async fn end_if_void(&self, pending: Invocation) -> Result<bool, Error> {
        let Some(why) = self.void_reason(&pending).await? else { return Ok(false) };
        let ending = Ending::unexecuted(pending, Status::Denied, Some(DeniedBy::Binding), why, Row::From(Status::Pending));
        let denied = self.walk.record_ending(ending).await?;
        self.advance_of(&denied).await;
        Ok(true)
    }
}
