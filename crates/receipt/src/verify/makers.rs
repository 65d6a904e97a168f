//! Checks that whoever changed a rule could change it at that moment. What came with an approval was permitted by the answers, and is
//! checked where those are: a grant in `standing`, a mode in `answers`.

use super::Finding;
use super::people::{People, unfounded};
use crate::body::{RuleBody, RuleChange};
use crate::entry::Header;
use countersign_core::PrincipalId;
use countersign_core::ledger::Wording;
use countersign_core::principal::{Permission, Role};

impl People {
    pub(super) fn may_change(&self, header: &Header, body: &RuleBody) -> Result<(), Finding> {
        let (now, by) = (header.judged_at(), body.by.as_ref());
        let needs = match &body.change {
            RuleChange::GrantGiven { invocation_id: Some(_), .. } => return Ok(()),
            // Countersign itself notices a drift, and ends the grants of what has drifted.
            RuleChange::Drifted { .. } | RuleChange::GrantRevoked { .. } if by.is_none() => return Ok(()),
            // See `change_role`.
            RuleChange::RoleChanged { .. } => return Ok(()),
            RuleChange::BandLimited { user, .. } => {
                let role = self.acted_on(now, user)?;
                if role != Role::Owner && by == Some(&PrincipalId::User(user.clone())) {
                    return Err(unfounded(format!("`{user}` changed their own limit")));
                }
                return self.manages(now, by, role);
            }
            RuleChange::GrantGiven { .. } | RuleChange::GrantRevoked { .. } | RuleChange::QuarantineSettled { .. } => Permission::Approve,
            RuleChange::ConsentGiven { .. } | RuleChange::ConsentWithdrawn { .. } => Permission::Read,
            RuleChange::AutomationSet { .. } => Permission::Invoke,
            RuleChange::SwitchedOn { .. }
            | RuleChange::SwitchedOff { .. }
            | RuleChange::Reviewed { .. }
            | RuleChange::Drifted { .. }
            | RuleChange::PoliciesSet { .. }
            | RuleChange::CrossingAllowed { .. }
            | RuleChange::CrossingForbidden { .. }
            | RuleChange::PriceSet { .. }
            | RuleChange::PriceRemoved { .. }
            | RuleChange::CanaryAdded { .. }
            | RuleChange::CanaryRemoved { .. }
            | RuleChange::AllowedSet { .. }
            | RuleChange::AllowedRemoved { .. }
            | RuleChange::SourceSet { .. }
            | RuleChange::SourceRemoved { .. }
            | RuleChange::ChannelSet { .. }
            | RuleChange::ChannelRemoved { .. }
            | RuleChange::OrgCreated { .. }
            | RuleChange::OrgDisabled { .. }
            | RuleChange::RetentionSet { .. } => Permission::ManagePolicy,
        };
        let role = self.may(now, by, needs)?;
        if role >= lowest(&body.change) {
            return Ok(());
        }
        Err(unfounded("only a person could do this, and an operator where it is about orgs or what sources may reach".to_owned()))
    }
}

/// The lowest role of a person who may make the change; `None` if a service may make it too.
const fn lowest(change: &RuleChange) -> Option<Role> {
    match change {
        RuleChange::OrgCreated { .. }
        | RuleChange::OrgDisabled { .. }
        | RuleChange::AllowedSet { .. }
        | RuleChange::AllowedRemoved { .. } => Some(Role::Owner),
        // A service that allows an action pins its definition, which nobody has read.
        RuleChange::Reviewed { wording: Wording::Unread, .. } => None,
        RuleChange::Reviewed { .. }
        | RuleChange::SwitchedOff { .. }
        | RuleChange::QuarantineSettled { .. }
        | RuleChange::AutomationSet { .. }
        | RuleChange::ConsentGiven { .. }
        | RuleChange::ConsentWithdrawn { .. } => Some(Role::Viewer),
        RuleChange::SwitchedOn { .. }
        | RuleChange::Drifted { .. }
        | RuleChange::PoliciesSet { .. }
        | RuleChange::CrossingAllowed { .. }
        | RuleChange::CrossingForbidden { .. }
        | RuleChange::PriceSet { .. }
        | RuleChange::PriceRemoved { .. }
        | RuleChange::BandLimited { .. }
        | RuleChange::RoleChanged { .. }
        | RuleChange::CanaryAdded { .. }
        | RuleChange::CanaryRemoved { .. }
        | RuleChange::SourceSet { .. }
        | RuleChange::SourceRemoved { .. }
        | RuleChange::ChannelSet { .. }
        | RuleChange::ChannelRemoved { .. }
        | RuleChange::RetentionSet { .. }
        | RuleChange::GrantGiven { .. }
        | RuleChange::GrantRevoked { .. } => None,
    }
}
