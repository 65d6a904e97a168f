//! Changes of the rules: whatever a decision may have rested on stands in the log before it.

use super::is_default;
use countersign_core::decision::{Drift, Gate, Lock};
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition};
use countersign_core::ledger::Wording;
use countersign_core::principal::Role;
use countersign_core::quarantine::QuarantineState;
use countersign_core::session::{Quorum, SelfApproval, SpaceRedaction};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{
    ActionId, Band, CanaryId, ConsentId, Digest, GrantId, InvocationId, Mode, OrgId, PrincipalId, SpaceId, Timestamp, UserId, json,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// A change of one mode row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeBody {
    pub action: ActionId,
    pub by: PrincipalId,
    pub lock: Lock,
    /// Absent when the row was removed.
    pub mode: Option<Mode>,
    /// `org` or `automation:aut_…`.
    pub scope: String,
    pub version: i64,
}

/// A space as it is from here on. The one that is made with its org has none until it changes: it is green.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceBody {
    pub band: Band,
    pub by: PrincipalId,
    pub name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub quorum: Quorum,
    #[serde(default, skip_serializing_if = "is_default")]
    pub redaction: SpaceRedaction,
    pub self_approval: SelfApproval,
    pub space: SpaceId,
    pub version: i64,
}

/// A change of a rule that is neither a mode nor a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleBody {
    /// Absent where Countersign itself noticed something.
    pub by: Option<PrincipalId>,
    pub change: RuleChange,
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RuleChange {
    /// A grant from here on.
    GrantGiven {
        grant: GrantId,
        terms: Terms,
        expires_at: Timestamp,
        /// Everybody it was given by.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        givers: Vec<UserId>,
        invocation_id: Option<InvocationId>,
        requested_by: Option<PrincipalId>,
    },
    GrantRevoked {
        grant: GrantId,
    },
    /// Nothing this covers is executed from here on.
    SwitchedOn {
        scope: SwitchScope,
        stop: Stop,
        reason: String,
    },
    SwitchedOff {
        scope: SwitchScope,
        reason: String,
    },
    /// A person looked at this definition and stands for it.
    Reviewed {
        action: ActionId,
        structural: Digest,
        textual: Digest,
        wording: Wording,
    },
    /// The definition is no longer the reviewed one.
    Drifted {
        action: ActionId,
        drift: Drift,
        structural: Digest,
        textual: Digest,
    },
    /// The org's policies from here on, each gate's by the SHA-256 of its text.
    PoliciesSet {
        digests: BTreeMap<Gate, Digest>,
    },
    ConsentGiven {
        consent: ConsentId,
        purpose: String,
        space: Option<SpaceId>,
        expires_at: Option<Timestamp>,
    },
    ConsentWithdrawn {
        consent: ConsentId,
    },
    /// An action may reach from one space into another.
    CrossingAllowed {
        action: ActionId,
        from: SpaceId,
        to: SpaceId,
    },
    CrossingForbidden {
        action: ActionId,
        from: SpaceId,
        to: SpaceId,
    },
    /// The most dangerous band a person, and whoever acts for them, may act in.
    BandLimited {
        user: UserId,
        max_band: Band,
    },
    /// A person's standing in the org from here on: what they, and whoever acts for them, may do.
    RoleChanged {
        user: UserId,
        role: Role,
    },
    /// A text was laid out to be stolen; what it is stands nowhere in the log.
    CanaryAdded {
        canary: CanaryId,
    },
    CanaryRemoved {
        canary: CanaryId,
    },
    /// An operator made another org; in the log of the first.
    OrgCreated {
        org: OrgId,
        name: String,
    },
    OrgDisabled {
        org: OrgId,
    },
    /// What a person made of a quarantined call.
    QuarantineSettled {
        invocation_id: InvocationId,
        state: QuarantineState,
        /// HMAC of what it held.
        digest: Digest,
        reason: String,
        released_as: Option<InvocationId>,
    },
}

/// What a grant allows, without the words of its condition: those may be sensitive, and have a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub calls_max: Option<u32>,
    pub condition: Option<Digest>,
    pub covers: Covers,
    pub definition: Option<GrantedDefinition>,
    pub scope: GrantScope,
    pub space: Option<SpaceId>,
}

impl Terms {
    pub fn of(terms: &GrantTerms) -> Self {
        let condition = terms.condition.as_ref().map(|condition| {
            let text = json::canonical(condition).unwrap_or_else(|_| condition.to_string());
            Digest::new(Sha256::digest(text).into())
        });
        Self {
            calls_max: terms.calls_max,
            condition,
            covers: terms.covers.clone(),
            definition: terms.definition,
            scope: terms.scope.clone(),
            space: terms.space.clone(),
        }
    }
}
