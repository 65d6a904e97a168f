//! Changes of the rules. The audit log holds every rule that a decision depends on, before the decision.

use super::is_default;
use countersign_core::allowed::AllowedList;
use countersign_core::automation::AutomationStatus;
use countersign_core::decision::{Drift, Gate, Lock};
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition, SumMax};
use countersign_core::ledger::Wording;
use countersign_core::ports::sources::ServerKind;
use countersign_core::price::Price;
use countersign_core::principal::Role;
use countersign_core::quarantine::QuarantineState;
use countersign_core::retention::Retention;
use countersign_core::session::{Keeps, Quorum, SelfApproval, SpaceRedaction};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{
    ActionId, AutomationId, Band, CanaryId, ChannelId, ConnectionId, ConsentId, Digest, GrantId, InvocationId, Mode, OrgId, PrincipalId,
    SourceId, SpaceId, Tier, Timestamp, UserId, json,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// A change of one mode row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeBody {
    pub action: ActionId,
    pub by: PrincipalId,
    pub lock: Lock,
    /// Absent if the row was removed.
    pub mode: Option<Mode>,
    /// `org` or `automation:aut_…`.
    pub scope: String,
    pub version: i64,
}

/// The settings of a space from here on. The space created with its org has no such entry until it changes; its band is green.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceBody {
    pub band: Band,
    pub by: PrincipalId,
    /// The SHA-256 of what its automations are given for inputs whose default is `$space_default`, as canonical JSON; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Digest>,
    /// What stays of calls that have ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keeps: Keeps,
    /// The people who may act in it; absent: everybody in the org.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<BTreeSet<UserId>>,
    pub name: String,
    /// Whether it only observes: calls that need approval run, but those of R4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observes: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub quorum: Quorum,
    #[serde(default, skip_serializing_if = "is_default")]
    pub redaction: SpaceRedaction,
    pub self_approval: SelfApproval,
    pub space: SpaceId,
    pub version: i64,
    /// Whether calls of class HIGH run there without a consent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waives_consent: bool,
}

/// A change of a rule that is neither a mode nor a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleBody {
    /// Absent if Countersign itself noticed the change.
    pub by: Option<PrincipalId>,
    pub change: RuleChange,
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RuleChange {
    /// A grant that is valid from here on.
    GrantGiven {
        grant: GrantId,
        terms: Box<Terms>,
        expires_at: Timestamp,
        /// All people who gave it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        givers: Vec<UserId>,
        invocation_id: Option<InvocationId>,
        requested_by: Option<PrincipalId>,
    },
    GrantRevoked {
        grant: GrantId,
    },
    /// From here on no call that the switch covers is executed.
    SwitchedOn {
        scope: SwitchScope,
        stop: Stop,
        reason: String,
    },
    SwitchedOff {
        scope: SwitchScope,
        reason: String,
    },
    /// A person has reviewed this definition and stands for it.
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
    /// The org's policies from here on. Each gate's are named by the SHA-256 of their text.
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
    /// What a call of an action costs from here on.
    PriceSet {
        action: ActionId,
        price: Price,
    },
    /// From here on its calls cost nothing.
    PriceRemoved {
        action: ActionId,
    },
    /// The strictest band in which a person, and every principal acting for them, may act.
    BandLimited {
        user: UserId,
        max_band: Band,
    },
    /// A person's role from here on. It limits what they, and every principal acting for them, may do.
    RoleChanged {
        user: UserId,
        role: Role,
    },
    /// A canary token was added. Its text is not in the log.
    CanaryAdded {
        canary: CanaryId,
    },
    CanaryRemoved {
        canary: CanaryId,
    },
    /// An operator allows the sources of every org something, or allows it otherwise; in the log of the first org.
    AllowedSet {
        list: AllowedList,
        /// The host or the network. Of a command, the beginning of the SHA-256 of its words as canonical JSON.
        entry: String,
        /// Of a command, the SHA-256 of the canonical JSON of all that is allowed of it, which is archived as definitions are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terms: Option<Digest>,
    },
    AllowedRemoved {
        list: AllowedList,
        entry: String,
    },
    /// A source was added, or is set otherwise from here on.
    SourceSet {
        source: SourceId,
        version: i64,
        /// The SHA-256 of the canonical JSON of everything that is set, which is archived as definitions are.
        settings: Digest,
        server: ServerKind,
        /// The connection whose credential its requests carry.
        connection: Option<ConnectionId>,
        /// The tiers that overrule what the server says, by the name of the tool.
        tiers: BTreeMap<String, Tier>,
    },
    SourceRemoved {
        source: SourceId,
        /// The version of the settings that it had last.
        version: i64,
    },
    /// From here on a channel is told of calls that wait.
    ChannelSet {
        channel: ChannelId,
        name: String,
        kind: String,
        /// The SHA-256 of the canonical JSON of everything that is set, which is archived as definitions are.
        settings: Digest,
    },
    ChannelRemoved {
        channel: ChannelId,
    },
    /// A person saved an automation, or said whether it fires.
    AutomationSet {
        automation: AutomationId,
        version: u32,
        /// The SHA-256 of the canonical JSON of the definition that it has from here on.
        definition: Digest,
        status: AutomationStatus,
    },
    /// An operator made another org; in the log of the first.
    OrgCreated {
        org: OrgId,
        name: String,
    },
    OrgDisabled {
        org: OrgId,
    },
    /// How long the org keeps what it has beside this log, from here on.
    RetentionSet {
        retention: Retention,
    },
    /// What a person made of a quarantined call.
    QuarantineSettled {
        invocation_id: InvocationId,
        state: QuarantineState,
        /// HMAC of the quarantined content.
        digest: Digest,
        reason: String,
        released_as: Option<InvocationId>,
    },
}

/// The terms of a grant, without the text of its condition: the text may be sensitive, so only its digest is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub calls_max: Option<u32>,
    pub condition: Option<Digest>,
    pub covers: Covers,
    pub definition: Option<GrantedDefinition>,
    pub scope: GrantScope,
    pub space: Option<SpaceId>,
    /// How much of a param its calls may add up to in a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_max: Option<SumMax>,
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
            sum_max: terms.sum_max.clone(),
        }
    }
}
