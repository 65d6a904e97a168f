//! What other rules would have made of the calls that were recorded: each is decided again, and what differs is told. Params are
//! the stored ones, redacted and perhaps shortened; consents and limits are those of now. Content checks are left out.

use crate::{Error, Pipeline};
use countersign_core::decision::{Drift, Lock, Verdict};
use countersign_core::invocation::{DeniedBy, Intention};
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::{Action, ActionId, Invocation, InvocationId, Mode, OrgId, PrincipalId, Status, Timestamp};
use policy::{Call, Policies};
use std::collections::HashMap;
use std::sync::Arc;

/// Rules to be tried. What is absent stays as it is.
pub struct Proposal {
    pub policies: Option<Arc<Policies>>,
    pub keeps_policies: bool,
    /// All of the org's own modes.
    pub modes: Option<HashMap<ActionId, (Mode, Lock)>>,
}

/// How a call fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Runs,
    Asks,
    Denied,
}

/// What became of one recorded call.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// Its action, session or principal is gone, or it was only a dry run.
    Skipped,
    Same,
    Changed(Box<WhatIf>),
}

/// A call that would fare otherwise.
#[derive(Clone, Debug)]
pub struct WhatIf {
    pub invocation: InvocationId,
    pub action: ActionId,
    pub principal: PrincipalId,
    pub created_at: Timestamp,
    pub before: Fate,
    pub after: Fate,
    pub because: String,
}

impl Pipeline {
    /// How a recorded call would fare.
    pub async fn what_if(
        &self,
        org: &OrgId,
        recorded: &Invocation,
        proposal: &Proposal,
        actions: &[Arc<Action>],
    ) -> Result<Replayed, Error> {
        let Some(action) = actions.iter().find(|action| action.id == recorded.action).filter(|_| recorded.intention == Intention::Effect)
        else {
            return Ok(Replayed::Skipped);
        };
        let session = self.ledger().find_session(org, &recorded.session).await?;
        let space = self.ledger().find_space(org, &recorded.space).await?;
        let principal = self.ledger().find_principal(org, &recorded.principal).await?;
        let (Some(session), Some(space), Some(principal)) = (session, space, principal) else {
            return Ok(Replayed::Skipped);
        };
        let policies = if proposal.keeps_policies { self.policies_of(org).await? } else { proposal.policies.clone() };
        let standing = self.standing_of(&principal).await?;
        let consents = self.purposes_of(&principal, &space).await?;
        let cross_space_listed = self.is_listed_crossing(&space, &recorded.params, &action.id).await?;
        let by = self.ledger().list_approvers(org).await?.to_vec();
        let obtainable = policy::Approval { by, expires: recorded.created_at.plus_seconds(session.attendance.approval_seconds()) };
        let drift = recorded_drift(recorded);
        // What the session held then is not recorded; where the caller said content came from is.
        let labels: Vec<_> = recorded.provenance.values().filter(|label| *label != "user").cloned().collect();
        let call = Call {
            principal: &principal,
            action,
            space: &space,
            params: &recorded.params,
            standing,
            now: recorded.created_at,
            consents: &consents,
            drift,
            labels: &labels,
            cross_space_listed,
            approval: None,
            obtainable: Some(&obtainable),
        };
        let gates = policy::gate(&call, policies.as_deref());
        let mut modes = self.ledger().find_modes(org, session.automation.as_ref(), &action.id).await?;
        if let Some(proposed) = &proposal.modes {
            let row = proposed.get(&action.id).map(|(mode, lock)| ModeRow { mode: *mode, lock: *lock, version: 0 });
            modes = ModeRows { org: row, ..modes };
        }
        let rules = policy::Rules { version: 0, modes, band: space.band, policies: None };
        let facts = policy::Facts { tier: action.tier, profile: action.profile, drift, asks: policy::asking(&gates), stopped: None };
        let decision = policy::decide(&facts, &rules);
        let denial = policy::denied(&gates);
        let after = match (denial, decision.mode) {
            (Some(_), _) | (None, Mode::Deny) => Fate::Denied,
            (None, Mode::RequireApproval) => Fate::Asks,
            (None, Mode::Allow) => Fate::Runs,
        };
        let before = fate_of(recorded);
        if before == after {
            return Ok(Replayed::Same);
        }
        let asking = gates.iter().find(|gate| gate.verdict == Verdict::NeedsApproval);
        let because = match (denial.or(asking), decision.tightened.last()) {
            (Some(gate), _) => format!("gate `{}`: {}", gate.gate.as_str(), gate.determining.join(", ")),
            (None, Some(reason)) => reason.to_string(),
            (None, None) => format!("mode `{}` from `{}`", decision.mode, decision.source.as_str()),
        };
        let (invocation, principal) = (recorded.id.clone(), recorded.principal.clone());
        Ok(Replayed::Changed(Box::new(WhatIf {
            invocation,
            action: action.id.clone(),
            principal,
            created_at: recorded.created_at,
            before,
            after,
            because,
        })))
    }

    /// Every action there is now, to replay against.
    pub async fn actions_now(&self, org: &OrgId) -> Vec<Arc<Action>> {
        self.inner.catalogue.all_actions(org).await
    }
}

/// How it fared, as far as the rules decided it. A grant stood in where a person would have been asked.
fn fate_of(recorded: &Invocation) -> Fate {
    if recorded.status == Status::Denied && recorded.denied_by == Some(DeniedBy::Policy) {
        return Fate::Denied;
    }
    match recorded.decision.mode {
        Mode::Allow => Fate::Runs,
        Mode::RequireApproval => Fate::Asks,
        Mode::Deny => Fate::Denied,
    }
}

fn recorded_drift(recorded: &Invocation) -> Drift {
    use countersign_core::decision::Reason;
    recorded
        .decision
        .tightened
        .iter()
        .find_map(|reason| match reason {
            Reason::Drift { drift } => Some(*drift),
            Reason::DangerIsNeverAllowed
            | Reason::PackageNeverUnattended
            | Reason::Band { .. }
            | Reason::Gate { .. }
            | Reason::Stopped { .. } => None,
        })
        .unwrap_or_default()
}
