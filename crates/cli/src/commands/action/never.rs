//! What keeps an action from ever running without a person, whatever mode is set.

use api::action::ActionView;
use countersign_core::Tier;
use countersign_core::decision::Reason;

/// In the words the card and the receipt have for it; `None` where the mode decides.
pub(in crate::commands) fn unattended(action: &ActionView) -> Option<String> {
    let reason = match (action.tier, &action.package_sha256) {
        (Tier::R4, None) => Reason::DangerIsNeverAllowed,
        (Tier::R3 | Tier::R4, Some(_)) => Reason::PackageNeverUnattended,
        (Tier::R0 | Tier::R1 | Tier::R2, _) | (Tier::R3, None) => return None,
    };
    Some(reason.to_string())
}
