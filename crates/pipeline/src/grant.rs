//! A grant that stands in for a person: found here, used up in the transaction that writes the intent.

use crate::admit::Admitted;
use crate::catalogue::compile_condition;
use crate::gate::Gated;
use crate::{Error, Pipeline};
use countersign_core::session::SelfApproval;
use countersign_core::{Grant, GrantId, PrincipalId};

/// A grant that fits the call. Only this file can make one.
pub(crate) struct Fitting {
    id: GrantId,
}

impl Fitting {
    pub(crate) const fn id(&self) -> &GrantId {
        &self.id
    }
}

impl Pipeline {
    /// The narrowest grant that fits, if the decision leaves room for one.
    pub(crate) async fn fitting_grant(&self, gated: &Gated, is_grantable: bool) -> Result<Option<Fitting>, Error> {
        if !is_grantable {
            return Ok(None);
        }
        let resolved = &gated.validated.resolved;
        let grants = self.ledger().find_grants(&resolved.admitted.session, &resolved.action().id).await?;
        Ok(grants.into_iter().find(|grant| fits(grant, gated)).map(|grant| Fitting { id: grant.id }))
    }
}

/// What the store cannot tell: whether it stands in for the people this call needs, whether the definition is the one it was given
/// for, and whether the params fit its condition.
fn fits(grant: &Grant, gated: &Gated) -> bool {
    let resolved = &gated.validated.resolved;
    let definition = &resolved.definition;
    let is_same =
        grant.terms.definition.is_none_or(|given| (given.structural, given.textual) == (definition.structural, definition.textual));
    let is_met = |condition| compile_condition(condition).is_ok_and(|schema| schema.is_valid(&resolved.admitted.request.params));
    stands_in(grant, gated) && is_same && grant.terms.condition.as_ref().is_none_or(is_met)
}

/// A grant is worth as much as the approval it spares: where that takes several people it must have come with theirs, and where
/// nobody approves their own calls nobody grants them either.
fn stands_in(grant: &Grant, gated: &Gated) -> bool {
    let Admitted { space, request, .. } = &gated.validated.resolved.admitted;
    let is_by_all = space.quorum.of(gated.validated.resolved.tier()) <= 1 || grant.invocation.is_some();
    let is_own = match &grant.given_by {
        Some(PrincipalId::User(user)) => request.principal.owner.as_ref() == Some(user),
        Some(PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_)) | None => true,
    };
    is_by_all && (space.self_approval == SelfApproval::Allowed || !is_own)
}
