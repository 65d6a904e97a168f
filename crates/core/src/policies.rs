//! An org's own policies, as people write and store them.

use crate::decision::Gate;
use serde::{Deserialize, Serialize};

/// The Cedar source of each gate's policies; an empty text means that the gate has no policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyTexts {
    /// A policy here may forbid, and may permit an action whose `requires` the principal does not hold.
    pub rbac: String,
    /// A policy here may only forbid, and the same holds for `consent` and `space`: a `permit` has no effect there, and a call that no
    /// policy forbids passes.
    pub abac: String,
    pub consent: String,
    pub space: String,
}

impl PolicyTexts {
    /// The text of one gate; `None` for a gate that has no policies.
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

/// The policies in force, and the rules version that introduced them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoliciesInForce {
    /// 0 when none were ever set.
    pub version: i64,
    pub texts: PolicyTexts,
}
