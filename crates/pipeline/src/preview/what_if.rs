//! How recorded calls would have been decided under other rules. Each call is decided twice, by the rules in force and by the proposed
//! ones, and the differences are reported. So a difference comes from the proposal, and not from rules that have changed since the call.
//! The params are the stored ones, redacted and possibly truncated; consents and limits are today's; the recorded verdicts of the content
//! gates are reused.

use crate::error::Error;
use crate::pipeline::Pipeline;
use countersign_core::decision::{Drift, Gate, GateVerdict, Lock, Reason, Verdict};
use countersign_core::invocation::Intention;
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::session::{Session, Space};
use countersign_core::{
    Action, ActionId, AutomationId, Decision, Invocation, InvocationId, Mode, OrgId, Principal, PrincipalId, Status, Timestamp, UserId,
};
use policy::{CallFacts, Policies};
use std::collections::HashMap;
use std::sync::Arc;

/// Rules to try. A rule that is absent stays as it is.
pub struct Proposal {
    pub policies: Option<Arc<Policies>>,
    pub keeps_policies: bool,
    /// Mode rows that would be set, for the org and for automations.
    pub modes: Option<ProposedModes>,
}

/// By owner (`None` is the org) and by action.
pub type ProposedModes = HashMap<(Option<AutomationId>, ActionId), (Mode, Lock)>;

/// How a call would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Runs,
    Asks,
    Denied,
}

/// The result for one recorded call.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// The action, session or principal is gone, the session is not connected to the source, or the call was a dry run.
    Skipped,
    /// A kill switch stopped the call, so the rules did not decide it.
    Stopped,
    /// A content gate quarantined the call, and no proposal would change that.
    Quarantined,
    Same,
    Changed(Box<WhatIf>),
}

/// A call that would be decided differently.
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

/// The rules that a call is decided by.
struct Tried<'a> {
    policies: Option<&'a Policies>,
    modes: ModeRows,
}

impl Pipeline {
    /// Decides a recorded call by the proposed rules.
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
        if recorded.status == Status::Quarantined {
            return Ok(Replayed::Quarantined);
        }
        if recorded.decision.tightened.iter().any(|reason| matches!(reason, Reason::Stopped { .. })) {
            return Ok(Replayed::Stopped);
        }
        let session = self.ledger().find_session(org, &recorded.session).await?;
        let space = self.ledger().find_space(org, &recorded.space).await?;
        let principal = self.ledger().find_principal_in(org, &recorded.principal, &recorded.session).await?;
        let (Some(session), Some(space), Some(principal)) = (session, space, principal) else {
            return Ok(Replayed::Skipped);
        };
        let principal = Principal { device: recorded.device.clone(), ..principal };
        if !self.catalogue().has_source(&session, action.id.source()).await {
            return Ok(Replayed::Skipped);
        }
        let in_force = self.walk.inner.compiled.of(org, self.ledger()).await?;
        let proposed = if proposal.keeps_policies { in_force.clone() } else { proposal.policies.clone() };
        let modes = self.ledger().find_modes(org, session.automation.as_ref(), &action.id).await?;
        let now = Tried { policies: in_force.as_deref(), modes };
        let then = Tried { policies: proposed.as_deref(), modes: proposal.modes_of(&session, &action.id, modes) };

        let standing = self.walk.standing_of(&principal).await?;
        let consents = self.walk.purposes_of(&principal, &space).await?;
        let cross_space_listed = self.walk.is_listed_crossing(&principal, &space, &recorded.call.params, &action.id).await?;
        let obtainable = self.obtainable(recorded, &session, &space, &principal).await?;
        // The labels of the session at that time are not recorded; the provenance that the caller declared is.
        let labels: Vec<_> = recorded.call.labels().collect();
        let call = CallFacts {
            principal: &principal,
            action,
            space: &space,
            params: &recorded.call.params,
            claimed_space: recorded.call.claimed_space(),
            standing,
            now: recorded.created_at,
            consents: &consents,
            drift: recorded_drift(recorded),
            labels: &labels,
            cross_space_listed,
            approval: None,
            obtainable: obtainable.as_ref(),
        };
        let (before, _, _) = decided(&call, recorded, now);
        let (after, gates, decision) = decided(&call, recorded, then);
        if before == after {
            return Ok(Replayed::Same);
        }
        Ok(Replayed::Changed(Box::new(WhatIf {
            invocation: recorded.id.clone(),
            action: action.id.clone(),
            principal: recorded.principal.clone(),
            created_at: recorded.created_at,
            before,
            after,
            because: because(&gates, &decision),
        })))
    }

    /// Every action there is now.
    pub async fn actions_now(&self, org: &OrgId) -> Vec<Arc<Action>> {
        self.walk.inner.catalogue.all_actions(org).await
    }

    /// The approval that this call could get, as `gate` computes it. If the space refuses self-approval, the owner does not count.
    async fn obtainable(
        &self,
        recorded: &Invocation,
        session: &Session,
        space: &Space,
        principal: &Principal,
    ) -> Result<Option<policy::Approval>, Error> {
        let may = |user: &&UserId| space.lets_approve(user, principal.owner.as_ref(), session);
        let by: Vec<_> = self.ledger().list_approvers(&session.org).await?.iter().filter(may).cloned().collect();
        let expires = recorded.created_at.plus_seconds(session.attendance.approval_seconds());
        Ok((!by.is_empty()).then_some(policy::Approval { by, expires }))
    }
}

impl Proposal {
    /// The mode rows for an action in a session. A row without a proposal stays in force.
    fn modes_of(&self, session: &Session, action: &ActionId, in_force: ModeRows) -> ModeRows {
        let Some(proposed) = &self.modes else { return in_force };
        let row = |automation: Option<&AutomationId>| {
            let found = proposed.get(&(automation.cloned(), action.clone()));
            found.map(|(mode, lock)| ModeRow { mode: *mode, lock: *lock, version: 0 })
        };
        let automation = session.automation.as_ref().and_then(|automation| row(Some(automation)));
        ModeRows { automation: automation.or(in_force.automation), org: row(None).or(in_force.org) }
    }
}

fn decided(call: &CallFacts<'_>, recorded: &Invocation, tried: Tried<'_>) -> (Fate, Vec<GateVerdict>, Decision) {
    let mut gates = policy::gate(call, tried.policies);
    // The content gates cannot run again, because the original params are gone. Their recorded verdicts are used.
    for gate in &mut gates {
        let content = [Gate::Safety, Gate::Redaction].contains(&gate.gate);
        if let Some(said) = recorded.gates.iter().find(|said| content && said.gate == gate.gate) {
            gate.clone_from(said);
        }
    }
    let rules = policy::Rules { version: 0, modes: tried.modes, band: call.space.band, policies: None };
    let facts = policy::Facts {
        tier: call.action.tier,
        profile: call.action.profile,
        drift: call.drift,
        asks: policy::asking(&gates),
        stopped: None,
    };
    let decision = policy::decide(&facts, &rules);
    let fate = match (policy::denied(&gates), decision.mode) {
        (Some(_), _) | (None, Mode::Deny) => Fate::Denied,
        (None, Mode::RequireApproval) => Fate::Asks,
        (None, Mode::Allow) => Fate::Runs,
    };
    (fate, gates, decision)
}

fn because(gates: &[GateVerdict], decision: &Decision) -> String {
    let asking = gates.iter().find(|gate| gate.verdict == Verdict::NeedsApproval);
    match policy::denied(gates).or(asking) {
        Some(gate) => format!("gate `{}`: {}", gate.gate.as_str(), gate.determining.join(", ")),
        None => decision.because(),
    }
}

fn recorded_drift(recorded: &Invocation) -> Drift {
    let drift = recorded.decision.tightened.iter().find_map(|reason| match reason {
        Reason::Drift { drift } => Some(*drift),
        Reason::DangerIsNeverAllowed
        | Reason::PackageNeverUnattended
        | Reason::Band { .. }
        | Reason::Gate { .. }
        | Reason::Stopped { .. } => None,
    });
    drift.unwrap_or_default()
}
