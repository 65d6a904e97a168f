//! Tiers as they are typed: `R3`, `merge=R4`, and `none` for one that is no longer set.

use crate::shared::*;
use countersign_core::Tier;
use std::collections::BTreeMap;

/// The word for what is no longer set.
pub(super) const NONE: &str = "none";

/// A tier, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaybeTier(pub(super) Option<Tier>);

/// Reads `R3`.
pub(super) fn tier(text: &str) -> Result<Tier, String> {
    Tier::parse(&text.to_uppercase()).ok_or_else(|| format!("expected a tier: {}", Tier::ALL.map(Tier::as_str).join(", ")))
}

/// Reads `R3` or `none`.
pub(super) fn tier_or_none(text: &str) -> Result<MaybeTier, String> {
    if text == NONE { Ok(MaybeTier(None)) } else { tier(text).map(|tier| MaybeTier(Some(tier))) }
}

/// Reads `merge=R4` or `merge=none`.
pub(super) fn tier_of_tool(text: &str) -> Result<(String, Option<Tier>), String> {
    let (tool, tier) = text.rsplit_once('=').ok_or("expected a tool and a tier, such as merge=R4")?;
    tier_or_none(tier).map(|MaybeTier(tier)| (tool.to_owned(), tier))
}

/// `look=R1, merge=R4`: the tiers that an admin set.
pub(super) fn line(tiers: &BTreeMap<String, Tier>) -> Option<Cell> {
    let told: Vec<_> = tiers.iter().map(|(tool, tier)| format!("{tool}={tier}")).collect();
    (!told.is_empty()).then(|| Cell::text(told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_typed_by_itself_or_for_a_tool() {
        assert_eq!(tier("r3"), Ok(Tier::R3));
        assert_eq!(tier("R9"), Err("expected a tier: R0, R1, R2, R3, R4".to_owned()));
        assert_eq!(tier_or_none("none"), Ok(MaybeTier(None)));
        assert_eq!(tier_of_tool("repo.merge=R4"), Ok(("repo.merge".to_owned(), Some(Tier::R4))));
        assert_eq!(tier_of_tool("look=none"), Ok(("look".to_owned(), None)));
        assert!(tier_of_tool("look").is_err() && tier_of_tool("look=").is_err());
    }
}
