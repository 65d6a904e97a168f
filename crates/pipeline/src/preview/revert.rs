//! Reverts the effect of an earlier invocation on demand: a call of its own, with its own gates, decision and receipt.

use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::preview::explain::Explanation;
use crate::preview::foresee::Foresight;
use crate::request::{Outcome, Request};
use crate::walk::admit::{Counted, Entrance};
use crate::walk::reversal::{has_effect, why_no_way_back};
use countersign_core::{Invocation, InvocationId, Principal, Status};

/// What a revert would do.
#[derive(Clone, Debug)]
pub struct RevertForesight {
    /// Whether the revert would run at once or need an approval.
    pub explanation: Explanation,
    /// What would be restored, or why it could not be.
    pub foresight: Foresight,
}

impl Pipeline {
    pub async fn revert(
        &self,
        principal: &Principal,
        id: &InvocationId,
        reason: Option<String>,
        trace_id: String,
    ) -> Result<Outcome, Error> {
        let reversed = self.reversed(principal, id).await?;
        self.invoke(Request::reverting(principal, &reversed, reason, trace_id)).await
    }

    /// Previews a revert, without a trace. It fails with the same error that the revert itself would be refused with.
    pub async fn foresee_revert(&self, principal: &Principal, id: &InvocationId) -> Result<RevertForesight, Error> {
        let reversed = self.reversed(principal, id).await?;
        let request = Request::reverting(principal, &reversed, None, String::new());
        let admitted = self.walk.admit_counted(self.walk.draw_id(), request, Entrance::Fresh, Counted::Not).await?;
        let resolved = self.walk.resolve_readonly(admitted).await?;
        self.walk.check_revertible(&resolved).await?;
        let (explanation, gated) = self.judge(resolved).await?;
        let mut foresight = self.look_ahead(&gated, &gated.to_invocation(Status::Pending, &explanation.decision)).await?;
        if foresight.blocked.is_none() && foresight.changes.is_none() {
            foresight.unknown = Some("the stored evidence names no file; only the source knows what would be reverted".to_owned());
        }
        Ok(RevertForesight { explanation: explanation.told_to(principal), foresight })
    }

    /// Those of the invocations that can be reverted, by their stored evidence. It does not check whether they already were.
    pub async fn with_a_way_back(&self, invocations: Vec<Invocation>) -> Result<Vec<Invocation>, Error> {
        let now = self.ledger().now().await?;
        let mut found = Vec::with_capacity(invocations.len());
        for invocation in invocations {
            let then = match has_effect(&invocation) {
                true => self.walk.source_then(&invocation).await,
                false => None,
            };
            if then.is_some_and(|(_, definition)| why_no_way_back(&invocation, &definition, now).is_none()) {
                found.push(invocation);
            }
        }
        Ok(found)
    }

    async fn reversed(&self, principal: &Principal, id: &InvocationId) -> Result<Invocation, Error> {
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)
    }
}
