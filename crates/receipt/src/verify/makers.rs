//! Checks that whoever changed a rule could change it at that moment. What came with an approval was permitted by the answers, and is
//! checked where those are: a grant in `standing`, a mode in `answers`.

use super::Finding;
use super::people::{People, unfounded};
use crate::body::{RuleBody, RuleMaker};
use crate::entry::Header;
use countersign_core::PrincipalId;
use countersign_core::principal::Role;

impl People {
    pub(super) fn may_change(&self, header: &Header, body: &RuleBody) -> Result<(), Finding> {
        let (now, by) = (header.judged_at(), body.by.as_ref());
        let (needs, lowest) = match body.about().maker {
            // A role is judged by `change_role`.
            RuleMaker::Elsewhere => return Ok(()),
            RuleMaker::ManagerOf(user) => {
                let role = self.acted_on(now, user)?;
                if role != Role::Owner && by == Some(&PrincipalId::User(user.clone())) {
                    return Err(unfounded(format!("`{user}` changed their own limit")));
                }
                return self.manages(now, by, role);
            }
            RuleMaker::Holder { or_countersign: true, .. } if by.is_none() => return Ok(()),
            RuleMaker::Holder { needs, lowest, .. } => (needs, lowest),
        };
        if self.may(now, by, needs)? >= lowest {
            return Ok(());
        }
        Err(unfounded("only a person could do this, and an operator where it is about orgs or what sources may reach".to_owned()))
    }
}
