//! Rules that require approval for an action whatever its mode is.

use api::action::ActionView;
use countersign_core::Tier;
use countersign_core::decision::Reason;

/// Why the action never runs without approval, in the words of the approval card and the receipt; `None` if its mode decides.
pub(in crate::commands) fn unattended(action: &ActionView) -> Option<String> {
    let reason = match (action.tier, &action.package_sha256) {
        (Tier::R4, None) => Reason::DangerIsNeverAllowed,
        (Tier::R3 | Tier::R4, Some(_)) => Reason::PackageNeverUnattended,
        (Tier::R0 | Tier::R1 | Tier::R2, _) | (Tier::R3, None) => return None,
    };
    Some(reason.to_string())
}
