//! Says of grants that cover an action why none of them replaces the approval of a call. It looks at the facts that `grant.rs` looks at, and
//! decides nothing: a grant that is not told here is used or not used all the same.

use crate::error::Error;
use crate::limits::NEAR_GRANTS_MAX;
use crate::walk::gate::Gated;
use crate::walk::grant::{is_of_this_definition, spends, stands_in};
use crate::walk::ground::Walk;
use countersign_core::grant::{Covers, Grant, GrantScope, GrantState, NearMiss};
use countersign_core::{GrantId, Session, Timestamp, UserId};
use serde_json::Value;

/// A grant that covers the action of a call and does not replace its approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearGrant {
    pub id: GrantId,
    pub covers: Covers,
    /// The first thing that is in the way.
    pub missed: NearMiss,
    /// The same in words.
    pub because: String,
}

/// The call that grants are compared with.
struct Compared<'a> {
    gated: &'a Gated,
    is_grantable: bool,
    /// If false, nothing is known of its params.
    has_params: bool,
    now: Timestamp,
    approvers: &'a [UserId],
}

impl Walk {
    /// Of these grants, those that do not replace the call's approval: the nearest first, and only a few.
    pub(crate) async fn near_grants(
        &self,
        gated: &Gated,
        is_grantable: bool,
        has_params: bool,
        known: Vec<Grant>,
    ) -> Result<Vec<NearGrant>, Error> {
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let org = &gated.validated.resolved.admitted.session.org;
        let approvers = self.ledger().list_approvers(org).await?;
        let call = Compared { gated, is_grantable, has_params, now: self.ledger().now().await?, approvers: &approvers };
        let mut near = Vec::new();
        for grant in known {
            if let Some((missed, because)) = self.missed(&grant, &call).await? {
                near.push(NearGrant { id: grant.id, covers: grant.terms.covers, missed, because });
            }
        }
        // Those that miss by the same stay in the order in which they were given.
        near.sort_by_key(|near| near.missed);
        near.truncate(NEAR_GRANTS_MAX);
        Ok(near)
    }

    async fn missed(&self, grant: &Grant, call: &Compared<'_>) -> Result<Option<(NearMiss, String)>, Error> {
        let resolved = &call.gated.validated.resolved;
        let params = &resolved.admitted.request.call.params;
        let at_all = over(grant, call.now).or_else(|| elsewhere(grant, &resolved.admitted.session));
        if at_all.is_some() {
            return Ok(at_all);
        }
        let missed = if !call.is_grantable {
            (NearMiss::Call, "no grant replaces the approval of such a call".to_owned())
        } else if !is_of_this_definition(grant, call.gated) {
            (NearMiss::Definition, "the action had another definition when it was given".to_owned())
        } else if !stands_in(grant, call.gated, call.approvers) {
            (NearMiss::Givers, "the people who gave it are not enough to approve this call, or may not approve it".to_owned())
        } else if spends(grant, params).is_err() {
            (NearMiss::Sum, too_much(grant, params, call.has_params))
        } else if !self.inner.conditions.are_met(grant, params).await {
            let why =
                if call.has_params { "the params do not meet its condition" } else { "its condition is about params, and none are given" };
            (NearMiss::Params, why.to_owned())
        } else if !self.answers(grant, call.gated).await? {
            (NearMiss::Policy, "a policy does not accept who gave it".to_owned())
        } else {
            return Ok(None);
        };
        Ok(Some(missed))
    }
}

/// Why it allows nothing, whatever the call is.
fn over(grant: &Grant, now: Timestamp) -> Option<(NearMiss, String)> {
    let is_late = grant.expires_at <= now;
    let used_up = grant.terms.calls_max.filter(|most| grant.used >= *most);
    match (grant.state, used_up) {
        // A grant that was used up and then revoked, by a drift for instance, was over before.
        (GrantState::Active | GrantState::Revoked, Some(most)) => {
            Some((NearMiss::UsedUp, format!("its calls are used up: {} of {most}", grant.used)))
        }
        (GrantState::Revoked, None) => Some((NearMiss::Revoked, "it was revoked".to_owned())),
        (GrantState::Refused, _) => Some((NearMiss::Refused, "a person refused it".to_owned())),
        (GrantState::Expired, _) => Some((NearMiss::Expired, "it has expired".to_owned())),
        // The sweep may be late.
        (GrantState::Active, None) => is_late.then(|| (NearMiss::Expired, "it has expired".to_owned())),
        (GrantState::Requested, _) if is_late => Some((NearMiss::Expired, "nobody answered the request for it in time".to_owned())),
        (GrantState::Requested, _) => Some((NearMiss::Requested, "nobody has answered the request for it yet".to_owned())),
    }
}

/// Whose calls, or calls where, it is for instead.
fn elsewhere(grant: &Grant, session: &Session) -> Option<(NearMiss, String)> {
    let is_for_it = match &grant.terms.scope {
        GrantScope::Session(of) => *of == session.id,
        GrantScope::Automation(of) => session.automation.as_ref() == Some(of),
        GrantScope::Org => true,
    };
    if !is_for_it {
        return Some((NearMiss::Scope, format!("it is for another {}", grant.terms.scope.kind())));
    }
    let is_elsewhere = grant.terms.space.as_ref().is_some_and(|space| *space != session.space);
    is_elsewhere.then(|| (NearMiss::Space, "it is for another space".to_owned()))
}

fn too_much(grant: &Grant, params: &Value, has_params: bool) -> String {
    let Some(sum) = grant.terms.sum_max.as_ref().filter(|_| has_params) else {
        return "it bounds a sum of params, and none are given".to_owned();
    };
    match sum.taken_by(params) {
        Some(taken) => format!("the call takes {taken}, and {} of {} is spent", grant.spent, sum.max),
        None => format!("the call names no amount at `{}`", sum.of),
    }
}
