//! An org's own policies, as people write and store them.

use crate::decision::Gate;
use serde::{Deserialize, Serialize};

/// The Cedar source of each gate's policies; an empty text is a gate without any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyTexts {
    /// May forbid, and may permit what the action `requires` and the principal does not hold.
    pub rbac: String,
    /// May forbid. Its permits loosen nothing, and neither do those of the next two: what no policy forbids passes there.
    pub abac: String,
    pub consent: String,
    pub space: String,
}

impl PolicyTexts {
    /// The text of one gate; `None` for a gate that is not ruled by policies.
    pub fn text_of(&self, gate: Gate) -> Option<&str> {
        match gate {
            Gate::Rbac => Some(&self.rbac),
            Gate::Abac => Some(&self.abac),
            Gate::Consent => Some(&self.consent),
            Gate::Space => Some(&self.space),
            Gate::Safety | Gate::Redaction => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        Gate::ALL.into_iter().filter_map(|gate| self.text_of(gate)).all(|text| text.trim().is_empty())
    }
}

/// The policies in force, and since which change of the org's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoliciesInForce {
    /// 0 when none were ever set.
    pub version: i64,
    pub texts: PolicyTexts,
}
