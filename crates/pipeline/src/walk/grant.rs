//! Grants that replace an approval: a grant is found here, and used in the transaction that writes the intent.

use crate::error::Error;
use crate::walk::admit::Admitted;
use crate::walk::gate::Gated;
use crate::walk::ground::Walk;
use countersign_core::{Amount, Grant, GrantId, UserId};
use serde_json::Value;

/// A grant that fits the call. Only this file can make one.
pub(crate) struct Fitting {
    id: GrantId,
    /// What the call takes of the sum that the grant bounds.
    spends: Option<Amount>,
}

impl Fitting {
    pub(crate) const fn id(&self) -> &GrantId {
        &self.id
    }

    pub(crate) const fn spends(&self) -> Option<Amount> {
        self.spends
    }
}

impl Walk {
    /// The narrowest grant that fits, if the decision permits a grant.
    pub(crate) async fn fitting_grant(&self, gated: &Gated, is_grantable: bool) -> Result<Option<Fitting>, Error> {
        if !is_grantable {
            return Ok(None);
        }
        let resolved = &gated.validated.resolved;
        let session = &resolved.admitted.session;
        let grants = self.ledger().find_grants(session, &resolved.action().id).await?;
        if grants.is_empty() {
            return Ok(None);
        }
        let approvers = self.ledger().list_approvers(&session.org).await?;
        for grant in grants.into_iter().filter(|grant| fits(grant, gated, &approvers)) {
            let params = &gated.validated.resolved.admitted.request.call.params;
            let Ok(spends) = spends(&grant, params) else { continue };
            if self.inner.conditions.are_met(&grant, params).await && self.answers(&grant, gated).await? {
                return Ok(Some(Fitting { id: grant.id, spends }));
            }
        }
        Ok(None)
    }

    /// Whether every policy that requires an approval accepts the people who gave the grant.
    pub(super) async fn answers(&self, grant: &Grant, gated: &Gated) -> Result<bool, Error> {
        if policy::asking(&gated.gates).is_none() {
            return Ok(true);
        }
        let yes = policy::Approval { by: grant.givers.clone(), expires: grant.expires_at };
        self.passes_with(gated, &yes).await
    }
}

/// The call names no amount, or more than is left of the sum.
pub(super) struct TooMuch;

/// What a call takes of the sum that its grant bounds. The store compares again when it takes it: others may be faster.
pub(super) fn spends(grant: &Grant, params: &Value) -> Result<Option<Amount>, TooMuch> {
    let Some(sum) = &grant.terms.sum_max else { return Ok(None) };
    let taken = sum.taken_by(params).filter(|taken| grant.spent.leaves_room(*taken, sum.max));
    taken.map(Some).ok_or(TooMuch)
}

/// Checks what the store cannot: whether the grant replaces the approvals that this call needs, and whether it was given for this
/// definition.
fn fits(grant: &Grant, gated: &Gated, approvers: &[UserId]) -> bool {
    stands_in(grant, gated, approvers) && is_of_this_definition(grant, gated)
}

pub(super) fn is_of_this_definition(grant: &Grant, gated: &Gated) -> bool {
    let definition = &gated.validated.resolved.definition;
    grant.terms.definition.is_none_or(|given| (given.structural, given.textual) == (definition.structural, definition.textual))
}

/// A grant must be worth the approval it replaces, by the rules in force now: it was given by as many people as the space's quorum, each
/// of them may still approve, and where self-approval is refused, none of them is the owner behind this call or asked for its run.
pub(super) fn stands_in(grant: &Grant, gated: &Gated, approvers: &[UserId]) -> bool {
    let Admitted { session, space, request, .. } = &*gated.validated.resolved.admitted;
    let quorum = space.quorum.of(gated.validated.resolved.tier()) as usize;
    let may_give = |user: &UserId| approvers.contains(user) && space.lets_approve(user, request.principal.owner.as_ref(), session);
    grant.givers.len() >= quorum.max(1) && grant.givers.iter().all(may_give)
}
