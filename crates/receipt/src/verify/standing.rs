//! Checks the grants that replaced approvals, and that nothing ran that a kill switch had stopped.
//! A grant must have been given before its use, by as many people as the space requires; it must cover the call, and must not be used
//! more often than it allows.

use super::decisions::IN_PROCESS;
use super::{Class, Finding};
use crate::body::{IntentBody, ReceiptBody, RuleChange, SpaceBody, Terms};
use countersign_core::action::Class as TierClass;
use countersign_core::decision::{Gate, Reason, Verdict};
use countersign_core::effect::Purpose;
use countersign_core::grant::GrantScope;
use countersign_core::session::Quorum;
use countersign_core::switch::SwitchScope;
use countersign_core::{ActionId, Band, GrantId, InvocationId, PrincipalId, SessionId, SpaceId, Status, Tier, Timestamp, UserId};
use std::collections::{BTreeSet, HashMap};

#[derive(Default)]
pub(super) struct Standing {
    grants: HashMap<GrantId, Given>,
    switches: Vec<SwitchScope>,
    /// The quorum of each space that an entry describes. In any other space one person is enough.
    quorums: HashMap<SpaceId, Quorum>,
    /// The last call that began with an approval, and its approvers. A grant given along with that approval comes right after it.
    approved: Option<(InvocationId, Vec<PrincipalId>)>,
}

struct Given {
    terms: Terms,
    expires_at: Timestamp,
    /// How many people gave it.
    givers: usize,
    used: u32,
    is_revoked: bool,
}

impl Standing {
    pub(super) fn set_space(&mut self, body: &SpaceBody) {
        self.quorums.insert(body.space.clone(), body.quorum.clone());
    }

    pub(super) fn change(&mut self, by: Option<&PrincipalId>, change: RuleChange) -> Result<(), Finding> {
        match change {
            RuleChange::GrantGiven { grant, terms, expires_at, givers, invocation_id, .. } => {
                if self.grants.contains_key(&grant) {
                    return Err(Finding::new(Class::Duplicate, format!("grant `{grant}` was given already")));
                }
                let givers = self.givers(by, &givers, invocation_id.as_ref()).map_err(|why| refused(format!("grant `{grant}` {why}")))?;
                self.grants.insert(grant, Given { terms, expires_at, givers, used: 0, is_revoked: false });
            }
            RuleChange::GrantRevoked { grant } => {
                if let Some(given) = self.grants.get_mut(&grant) {
                    given.is_revoked = true;
                }
            }
            RuleChange::SwitchedOn { scope, .. } => {
                self.switches.retain(|on| *on != scope);
                self.switches.push(scope);
            }
            RuleChange::SwitchedOff { scope, .. } => self.switches.retain(|on| *on != scope),
            RuleChange::Reviewed { .. }
            | RuleChange::Drifted { .. }
            | RuleChange::PoliciesSet { .. }
            | RuleChange::ConsentGiven { .. }
            | RuleChange::ConsentWithdrawn { .. }
            | RuleChange::CrossingAllowed { .. }
            | RuleChange::CrossingForbidden { .. }
            | RuleChange::BandLimited { .. }
            | RuleChange::RoleChanged { .. }
            | RuleChange::CanaryAdded { .. }
            | RuleChange::CanaryRemoved { .. }
            | RuleChange::OrgCreated { .. }
            | RuleChange::OrgDisabled { .. }
            | RuleChange::QuarantineSettled { .. } => {}
        }
        Ok(())
    }

    /// How many people gave a grant. Whoever recorded it, and every named giver, must have given it or approved the call that it came with.
    fn givers(&self, by: Option<&PrincipalId>, givers: &[UserId], invocation: Option<&InvocationId>) -> Result<usize, &'static str> {
        let said_yes = match (invocation, &self.approved) {
            (None, _) => by.map(std::slice::from_ref).unwrap_or_default(),
            (Some(came_with), Some((approved, approvers))) if approved == came_with => approvers,
            (Some(_), _) => return Err("came with an approval that is not there"),
        };
        let is_other = |by: &PrincipalId| !said_yes.contains(by);
        if by.is_none_or(is_other) || givers.iter().any(|giver| is_other(&PrincipalId::User(giver.clone()))) {
            return Err("names somebody who did not give it");
        }
        // A grant that names no giver was given by one.
        Ok(givers.iter().collect::<BTreeSet<_>>().len().max(1))
    }

    /// Checks that no kill switch stops the effect about to start, and that its grant, if it has one, covers it.
    pub(super) fn allows(&mut self, at: Timestamp, intent: &IntentBody) -> Result<(), Finding> {
        if let Some(approval) = &intent.approval {
            self.approved = Some((intent.invocation_id.clone(), approval.approvers.clone()));
        }
        // A rollback goes on despite any kill switch: it removes an effect that should not stay.
        let is_rollback = intent.purpose == Purpose::Rollback;
        if let Some(stopped) = self.switches.iter().find(|scope| !is_rollback && stops(scope, intent)) {
            return Err(refused(format!("a kill switch on `{stopped}` was on")));
        }
        let quorum = self.quorum(&intent.space, intent.tier);
        // Another attempt at the same call is not another use.
        let (Some(id), 1) = (&intent.grant, intent.attempt) else { return Ok(()) };
        let given = self.grants.get_mut(id).ok_or_else(|| refused(format!("grant `{id}` was never given")))?;
        if let Some(why) = given.unfit(at, intent) {
            return Err(refused(format!("grant `{id}` {why}")));
        }
        if given.givers < quorum as usize {
            return Err(refused(format!("grant `{id}` was given by fewer people than the space asks for, which is {quorum}")));
        }
        given.used += 1;
        Ok(())
    }

    /// How many people must approve a call of this tier.
    pub(super) fn quorum(&self, space: &SpaceId, tier: Tier) -> u32 {
        self.quorums.get(space).map_or(1, |quorum| quorum.of(tier))
    }

    /// Gives a use back if the receipt says that the call was not sent to its source.
    pub(super) fn settle(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        // If the call required an approval anyway, the decision does not name the gate; only the gate's verdict does.
        let safety = receipt.policy.get(&Gate::Safety).map(|said| said.verdict);
        if let (Some(id), Some(Verdict::NeedsApproval)) = (&receipt.grant, safety) {
            return Err(refused(format!("grant `{id}` {CONTENT}")));
        }
        if !receipt.grant_returned {
            return Ok(());
        }
        if receipt.status != Status::Failed {
            return Err(refused(format!("it gives back a use although it is `{}`", receipt.status)));
        }
        let used = receipt.grant.as_ref().and_then(|id| self.grants.get_mut(id)).filter(|given| given.used > 0);
        let given = used.ok_or_else(|| refused("it gives back a use that no grant had".to_owned()))?;
        given.used -= 1;
        Ok(())
    }
}

impl Given {
    /// Why the grant does not cover this call; `None` if it does.
    fn unfit(&self, at: Timestamp, intent: &IntentBody) -> Option<&'static str> {
        let Self { terms, expires_at, used, is_revoked, givers: _ } = self;
        if *is_revoked {
            Some("had been revoked")
        } else if *expires_at <= at {
            Some("was past its time")
        } else if terms.calls_max.is_some_and(|most| *used >= most) {
            Some("was used up")
        } else if !terms.covers.includes(&intent.action) || terms.space.as_ref().is_some_and(|space| *space != intent.space) {
            Some("does not cover the call")
        } else if !is_of(&terms.scope, &intent.principal) {
            Some("was given to somebody else")
        } else if terms
            .definition
            .is_some_and(|one| (one.structural, one.textual) != (intent.definition.structural, intent.definition.textual))
        {
            Some("was given for another definition")
        } else if intent.tier.class() == TierClass::Danger {
            Some("cannot cover what destroys")
        } else if intent.tier >= Tier::R3 && intent.profile != IN_PROCESS {
            Some("cannot cover what a package does at this tier")
        } else {
            intent.decision.tightened.iter().find_map(unanswerable)
        }
    }
}

const CONTENT: &str = "cannot answer for the content, which asked for a person";

/// Why no grant can replace an approval that is required for this reason; `None` if a grant can.
const fn unanswerable(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::Gate { gate: Gate::Safety } => Some(CONTENT),
        Reason::Drift { .. } => Some("cannot cover a definition that has changed since its review"),
        Reason::Band { band: Band::Black } => Some("cannot cover a call in a black space"),
        Reason::DangerIsNeverAllowed
        | Reason::PackageNeverUnattended
        | Reason::Band { .. }
        | Reason::Gate { .. }
        | Reason::Stopped { .. } => None,
    }
}

/// Whether the grant's scope includes the principal. An intent does not name its session, but an agent's principal id does.
fn is_of(scope: &GrantScope, principal: &PrincipalId) -> bool {
    match (scope, principal) {
        (GrantScope::Session(session), PrincipalId::Agent(own)) => session == own,
        (GrantScope::Automation(automation), PrincipalId::Automation(own)) => automation == own,
        (GrantScope::Org | GrantScope::Session(_) | GrantScope::Automation(_), _) => true,
    }
}

fn stops(scope: &SwitchScope, intent: &IntentBody) -> bool {
    let IntentBody { space, action, principal, .. } = intent;
    match principal {
        PrincipalId::Agent(session) => scope.covers(space, session, action),
        PrincipalId::User(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => covers_unnamed(scope, space, action),
    }
}

/// Whether the scope covers a call whose session is not named in the entry.
fn covers_unnamed(scope: &SwitchScope, space: &SpaceId, action: &ActionId) -> bool {
    match scope {
        SwitchScope::Session(_) => false,
        SwitchScope::Org | SwitchScope::Space(_) | SwitchScope::Source(_) | SwitchScope::Action(_) => {
            scope.covers(space, &SessionId::new(Timestamp::default(), [0; 10]), action)
        }
    }
}

fn refused(reason: String) -> Finding {
    Finding::new(Class::EffectDespiteDenial, reason)
}
