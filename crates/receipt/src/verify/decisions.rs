//! Whether a decision follows from what the log itself says: the mode rows, the tier, and nothing else.

use super::{Class, Finding};
use crate::body::ModeBody;
use countersign_core::action::Class as TierClass;
use countersign_core::decision::{ModeSource, Reason};
use countersign_core::{ActionId, Decision, Mode, PrincipalId, Tier};
use std::collections::HashSet;

const ORG: &str = "org";

/// Every mode row the log has recorded so far.
#[derive(Default)]
pub(super) struct Modes {
    rows: HashSet<Row>,
    /// The same for automations without which one: a receipt names it only where the automation itself acts.
    automation_rows: HashSet<(ActionId, i64, Mode)>,
}

#[derive(PartialEq, Eq, Hash)]
struct Row {
    scope: String,
    action: ActionId,
    version: i64,
    mode: Mode,
}

impl Modes {
    pub(super) fn set(&mut self, body: ModeBody) {
        let ModeBody { scope, action, mode, version, by: _ } = body;
        // A removed row can decide nothing.
        if let Some(mode) = mode {
            if scope != ORG {
                self.automation_rows.insert((action.clone(), version, mode));
            }
            self.rows.insert(Row { scope, action, version, mode });
        }
    }

    /// Decides again and compares.
    pub(super) fn rederive(&self, decision: &Decision, tier: Tier, action: &ActionId, principal: &PrincipalId) -> Result<(), Finding> {
        let differs = |reason: String| Err(Finding::new(Class::DecisionNotReproduced, reason));
        let Decision { base, source, modes_version, .. } = decision;
        let stands = match (source, modes_version) {
            (ModeSource::InferredDefault, None) => *base == inferred(tier),
            (ModeSource::InferredDefault, Some(_)) => false,
            (ModeSource::OrgDefault, Some(version)) => self.has_row(ORG.to_owned(), action, *version, *base),
            (ModeSource::AutomationOverride, Some(version)) => match principal {
                PrincipalId::Automation(_) => self.has_row(principal.to_string(), action, *version, *base),
                PrincipalId::User(_) | PrincipalId::Agent(_) | PrincipalId::Service(_) => {
                    self.automation_rows.contains(&(action.clone(), *version, *base))
                }
            },
            (ModeSource::OrgDefault | ModeSource::AutomationOverride, None) => false,
        };
        if !stands {
            return differs(format!("nothing in the log makes `{action}` at {tier} `{base}` by {}", source.as_str()));
        }
        let again = Decision::new(*base, *source, *modes_version);
        let again = if tier == Tier::R4 { again.at_least(Mode::RequireApproval, Reason::DangerIsNeverAllowed) } else { again };
        if again != *decision {
            return differs(format!("`{action}` at {tier} with base `{base}` is decided `{}`, not `{}`", again.mode, decision.mode));
        }
        Ok(())
    }

    fn has_row(&self, scope: String, action: &ActionId, version: i64, mode: Mode) -> bool {
        self.rows.contains(&Row { scope, action: action.clone(), version, mode })
    }
}

/// The mode of an action nobody has set one for.
const fn inferred(tier: Tier) -> Mode {
    match tier.class() {
        TierClass::Read => Mode::Allow,
        TierClass::Write => Mode::RequireApproval,
        TierClass::Danger => Mode::Deny,
    }
}
