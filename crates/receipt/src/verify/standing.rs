//! Checks the grants that replaced approvals, and that nothing ran that a kill switch had stopped.
//! A grant must have been given before its use, by as many people as the space requires; it must cover the call, and must not be used
//! more often, or for more in a window, than it allows. Without an approval or a grant a call ran only where its space observed. Where the
//! space refuses self-approval, nobody approves a call of their own or of a run that they asked for, or has given the grant for it. Where the
//! space has members, they alone call, approve and have given the grants there.

use super::decisions::is_package;
use super::{Class, Finding};
use crate::body::{IntentBody, ReceiptBody, RuleChange, SpaceBody, Terms};
use countersign_core::action::Class as TierClass;
use countersign_core::decision::{Gate, Reason, Verdict};
use countersign_core::effect::Purpose;
use countersign_core::grant::GrantScope;
use countersign_core::session::{Quorum, SelfApproval};
use countersign_core::switch::SwitchScope;
use countersign_core::{ActionId, Amount, Band, GrantId, InvocationId, PrincipalId, SessionId, SpaceId, Status, Tier, Timestamp, UserId};
use std::collections::{BTreeSet, HashMap, HashSet};

#[derive(Default)]
pub(super) struct Standing {
    grants: HashMap<GrantId, Given>,
    switches: Vec<SwitchScope>,
    /// What each space that an entry describes asks of approvals, and its members. In any other space everybody acts, one person is enough,
    /// and may be the owner.
    spaces: HashMap<SpaceId, (Quorum, SelfApproval, Option<BTreeSet<UserId>>)>,
    /// The spaces that only observe.
    observing: HashSet<SpaceId>,
    /// The last call that began with an approval, and its approvers. A grant given along with that approval comes right after it.
    approved: Option<(InvocationId, Vec<PrincipalId>)>,
}

struct Given {
    terms: Terms,
    expires_at: Timestamp,
    givers: BTreeSet<UserId>,
    used: u32,
    /// What its calls took of the sum that it bounds, as far as it is in the window.
    spent: Vec<(Timestamp, InvocationId, Amount)>,
    is_revoked: bool,
}

impl Standing {
    pub(super) fn set_space(&mut self, body: &SpaceBody) {
        self.spaces.insert(body.space.clone(), (body.quorum.clone(), body.self_approval, body.members.clone()));
        if body.observes {
            self.observing.insert(body.space.clone());
        } else {
            self.observing.remove(&body.space);
        }
    }

    pub(super) fn change(&mut self, by: Option<&PrincipalId>, change: RuleChange) -> Result<(), Finding> {
        if let RuleChange::GrantGiven { grant, terms, expires_at, givers, invocation_id, .. } = change {
            if self.grants.contains_key(&grant) {
                return Err(Finding::new(Class::Duplicate, format!("grant `{grant}` was given already")));
            }
            let givers = self.givers(by, &givers, invocation_id.as_ref()).map_err(|why| refused(format!("grant `{grant}` {why}")))?;
            self.grants.insert(grant, Given { terms: *terms, expires_at, givers, used: 0, spent: Vec::new(), is_revoked: false });
        } else if let RuleChange::GrantRevoked { grant } = change {
            if let Some(given) = self.grants.get_mut(&grant) {
                given.is_revoked = true;
            }
        } else if let RuleChange::SwitchedOn { scope, .. } = change {
            self.switches.retain(|on| *on != scope);
            self.switches.push(scope);
        } else if let RuleChange::SwitchedOff { scope, .. } = change {
            self.switches.retain(|on| *on != scope);
        }
        Ok(())
    }

    /// The people who gave a grant. Whoever recorded it, and every named giver, must have given it or approved the call that it came with.
    fn givers(
        &self,
        by: Option<&PrincipalId>,
        givers: &[UserId],
        invocation: Option<&InvocationId>,
    ) -> Result<BTreeSet<UserId>, &'static str> {
        let said_yes = match (invocation, &self.approved) {
            (None, _) => by.map(std::slice::from_ref).unwrap_or_default(),
            (Some(came_with), Some((approved, approvers))) if approved == came_with => approvers,
            (Some(_), _) => return Err("came with an approval that is not there"),
        };
        let is_other = |by: &PrincipalId| !said_yes.contains(by);
        if by.is_none_or(is_other) || givers.iter().any(|giver| is_other(&PrincipalId::User(giver.clone()))) {
            return Err("names somebody who did not give it");
        }
        // A grant that names no giver was given by whoever recorded it.
        match by {
            Some(PrincipalId::User(user)) if givers.is_empty() => Ok(BTreeSet::from([user.clone()])),
            Some(_) | None => Ok(givers.iter().cloned().collect()),
        }
    }

    /// Checks that no kill switch stops the effect about to start, that neither its owner nor whoever asked for its run approved it where the
    /// space refuses that, and that its grant, if it has one, covers it. `owner` is the person whose call it is, if the log says so.
    pub(super) fn allows(&mut self, at: Timestamp, intent: &IntentBody, owner: Option<&UserId>) -> Result<(), Finding> {
        if let (Some(approval), 1) = (&intent.approval, intent.attempt) {
            self.approved = Some((intent.invocation_id.clone(), approval.approvers.clone()));
        }
        // A rollback goes on despite any kill switch: it removes an effect that should not stay.
        let is_rollback = intent.purpose == Purpose::Rollback;
        if let Some(stopped) = self.switches.iter().find(|scope| !is_rollback && stops(scope, intent)) {
            return Err(refused(format!("a kill switch on `{stopped}` was on")));
        }
        // Another attempt at the same call has the same approval, and is not another use. The space may have changed since: a rollback goes
        // on all the same.
        if intent.attempt > 1 {
            return Ok(());
        }
        // A batch reverts what it did, whoever may act by then.
        let is_owed = is_rollback || (intent.batch.is_some() && intent.reverses.is_some());
        if !is_owed && !self.lets_in(&intent.space, owner) {
            return Err(refused("the person whose call it is was no member of the space".to_owned()));
        }
        let is_stranger = |by: &PrincipalId| matches!(by, PrincipalId::User(user) if !self.lets_in(&intent.space, Some(user)));
        if intent.approval.as_ref().is_some_and(|approval| approval.approvers.iter().any(is_stranger)) {
            return Err(refused("somebody approved it who was no member of the space".to_owned()));
        }
        let givers = intent.grant.as_ref().and_then(|id| self.grants.get(id)).map(|given| &given.givers);
        if givers.into_iter().flatten().any(|giver| !self.lets_in(&intent.space, Some(giver))) {
            return Err(refused("somebody gave its grant who was no member of the space".to_owned()));
        }
        let quorum = self.quorum(&intent.space, intent.tier);
        let refuses = self.refuses_self_approval(&intent.space);
        let is_barred = |user: &UserId| refuses && (owner == Some(user) || intent.asked_by.as_ref() == Some(user));
        let is_own = |by: &PrincipalId| matches!(by, PrincipalId::User(user) if is_barred(user));
        if intent.approval.as_ref().is_some_and(|approval| approval.approvers.iter().any(is_own)) {
            return Err(refused("its owner, or who asked for its run, approved it, and the space refuses self-approval".to_owned()));
        }
        if intent.observed {
            self.was_observed(intent)?;
        }
        let Some(id) = &intent.grant else { return Ok(()) };
        let given = self.grants.get_mut(id).ok_or_else(|| refused(format!("grant `{id}` was never given")))?;
        if let Some(why) = given.unfit(at, intent) {
            return Err(refused(format!("grant `{id}` {why}")));
        }
        if given.givers.len() < quorum as usize {
            return Err(refused(format!("grant `{id}` was given by fewer people than the space asks for, which is {quorum}")));
        }
        if given.givers.iter().any(is_barred) {
            let whose = "the owner of the call, or who asked for its run";
            return Err(refused(format!("grant `{id}` was given by {whose}, and the space refuses self-approval")));
        }
        given.used += 1;
        given.spend(at, intent);
        Ok(())
    }

    /// Checks that a call that nobody permitted was made where the space only observes, and does not destroy.
    fn was_observed(&self, intent: &IntentBody) -> Result<(), Finding> {
        if !self.observing.contains(&intent.space) {
            return Err(refused("it ran as observed, and its space does not only observe".to_owned()));
        }
        if intent.tier.class() == TierClass::Danger {
            return Err(refused("it destroys, and such a call is held also where the space only observes".to_owned()));
        }
        Ok(())
    }

    /// How many people must approve a call of this tier.
    pub(super) fn quorum(&self, space: &SpaceId, tier: Tier) -> u32 {
        self.spaces.get(space).map_or(1, |(quorum, _, _)| quorum.of(tier))
    }

    fn refuses_self_approval(&self, space: &SpaceId) -> bool {
        self.spaces.get(space).is_some_and(|(_, rule, _)| *rule == SelfApproval::Refused)
    }

    fn lets_in(&self, space: &SpaceId, person: Option<&UserId>) -> bool {
        let members = self.spaces.get(space).and_then(|(_, _, members)| members.as_ref());
        members.is_none_or(|members| person.is_some_and(|person| members.contains(person)))
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
        given.spent.retain(|(_, by, _)| *by != receipt.invocation_id);
        Ok(())
    }
}

impl Given {
    /// Whether what the call takes still fits into the sum of the window that ends with it.
    fn has_room(&self, at: Timestamp, intent: &IntentBody) -> bool {
        let Some(sum) = &self.terms.sum_max else { return true };
        let since = at.minus_seconds(sum.per_seconds);
        let spent = self.spent.iter().filter(|(then, _, _)| *then > since).map(|(_, _, amount)| *amount).sum::<Amount>();
        intent.spends.is_some_and(|amount| spent.leaves_room(amount, sum.max))
    }

    fn spend(&mut self, at: Timestamp, intent: &IntentBody) {
        if let (Some(sum), Some(amount)) = (&self.terms.sum_max, intent.spends) {
            let since = at.minus_seconds(sum.per_seconds);
            self.spent.retain(|(then, _, _)| *then > since);
            self.spent.push((at, intent.invocation_id.clone(), amount));
        }
    }

    /// Why the grant does not cover this call; `None` if it does.
    fn unfit(&self, at: Timestamp, intent: &IntentBody) -> Option<&'static str> {
        let Self { terms, expires_at, used, is_revoked, givers: _, spent: _ } = self;
        if *is_revoked {
            Some("had been revoked")
        } else if *expires_at <= at {
            Some("was past its time")
        } else if terms.calls_max.is_some_and(|most| *used >= most) {
            Some("was used up")
        } else if !self.has_room(at, intent) {
            Some("does not leave so much of its sum")
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
        } else if intent.tier >= Tier::R3 && is_package(&intent.profile) {
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
        Reason::Drift { .. } => Some("cannot cover a definition that has changed since its review, or that nobody has reviewed"),
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
