//! Changes of the rules. The audit log holds every rule that a decision depends on, before the decision.

use super::is_default;
use countersign_core::allowed::AllowedList;
use countersign_core::automation::AutomationStatus;
use countersign_core::decision::{Drift, Gate, Lock};
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition, SumMax};
use countersign_core::ledger::Wording;
use countersign_core::ports::sources::ServerKind;
use countersign_core::price::Price;
use countersign_core::principal::{Permission, Role};
use countersign_core::quarantine::QuarantineState;
use countersign_core::retention::Retention;
use countersign_core::session::{Keeps, Quorum, SelfApproval, SpaceRedaction};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{
    ActionId, Amount, AutomationId, Band, CanaryId, ChannelId, ConnectionId, ConsentId, Digest, GrantId, InvocationId, Mode, OrgId,
    PrincipalId, SourceId, SpaceId, Tier, Timestamp, UserId, json,
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

/// What a change of a rule says of itself. Everything that reads the log goes by this, and matches a kind only where it keeps what that kind
/// is about.
pub struct RuleFacts<'a> {
    /// What it changes, as people say it, and which one.
    pub subject: (&'static str, String),
    pub in_force: RuleInForce,
    pub maker: RuleMaker<'a>,
}

/// What is in force of the subject from here on.
pub enum RuleInForce {
    /// This, which the database must say too.
    As(String),
    /// What was in force before, with this at its end.
    Marked(&'static str),
    Nothing,
    /// It is about a person, of whom other entries speak too.
    OfPerson,
    /// It only tells what was done.
    Unchanged,
}

/// Who may make a change.
pub enum RuleMaker<'a> {
    /// Whoever had this permission, and if there is a lowest role a person who had it. Some changes Countersign makes by itself.
    Holder { needs: Permission, lowest: Option<Role>, or_countersign: bool },
    /// Whoever may manage this person.
    ManagerOf(&'a UserId),
    /// Judged by other entries.
    Elsewhere,
}

/// Ends what is said of a grant.
pub const REVOKED: &str = " revoked";
/// Ends what is said of a source or a channel.
pub const REMOVED: &str = " removed";

impl RuleBody {
    pub fn about(&self) -> RuleFacts<'_> {
        use RuleChange as R;
        use RuleInForce::{As, Marked, Nothing, OfPerson, Unchanged};
        let holder = |needs, lowest| RuleMaker::Holder { needs, lowest, or_countersign: false };
        let (admin, operator) = (holder(Permission::ManagePolicy, None), holder(Permission::ManagePolicy, Some(Role::Owner)));
        let person = |needs| holder(needs, Some(Role::Viewer));
        let (kind, name, in_force, maker) = match &self.change {
            R::GrantGiven { grant, terms, expires_at, givers, invocation_id, .. } => {
                let maker = if invocation_id.is_some() { RuleMaker::Elsewhere } else { holder(Permission::Approve, None) };
                ("grant", grant.to_string(), As(said::grant(terms, *expires_at, givers)), maker)
            }
            R::GrantRevoked { grant } => {
                let maker = RuleMaker::Holder { needs: Permission::Approve, lowest: None, or_countersign: true };
                ("grant", grant.to_string(), Marked(REVOKED), maker)
            }
            R::SwitchedOn { scope, stop, .. } => ("kill switch", scope.to_string(), As(stop.as_str().to_owned()), admin),
            R::SwitchedOff { scope, .. } => ("kill switch", scope.to_string(), Nothing, person(Permission::ManagePolicy)),
            R::Reviewed { action, structural, textual, wording } => {
                // A service that allows an action pins its definition, which nobody has read.
                let maker = if *wording == Wording::Unread { admin } else { person(Permission::ManagePolicy) };
                ("review", action.to_string(), As(format!("{structural} {textual} {}", wording.as_str())), maker)
            }
            R::Drifted { action, .. } => {
                let maker = RuleMaker::Holder { needs: Permission::ManagePolicy, lowest: None, or_countersign: true };
                ("review", action.to_string(), Unchanged, maker)
            }
            R::PoliciesSet { digests } => ("policies", IN_FORCE.to_owned(), As(said::policies(digests)), admin),
            R::ConsentGiven { consent, purpose, space, expires_at } => {
                let by = match &self.by {
                    Some(PrincipalId::User(user)) => user.as_str(),
                    Some(_) | None => "",
                };
                let within = space.as_ref().map_or_else(String::new, |space| format!(" in {space}"));
                let said = format!("{by} {purpose}{within}{}", said::until(*expires_at));
                ("consent", consent.to_string(), As(said), person(Permission::Read))
            }
            R::ConsentWithdrawn { consent } => ("consent", consent.to_string(), Nothing, person(Permission::Read)),
            R::CrossingAllowed { action, from, to } => ("crossing", format!("{action} {from} {to}"), As("allowed".to_owned()), admin),
            R::CrossingForbidden { action, from, to } => ("crossing", format!("{action} {from} {to}"), Nothing, admin),
            R::PriceSet { action, price } => ("price", action.to_string(), As(said::price(self.version, price)), admin),
            R::PriceRemoved { action } => ("price", action.to_string(), Nothing, admin),
            R::BandLimited { user, .. } => ("user", user.to_string(), OfPerson, RuleMaker::ManagerOf(user)),
            R::RoleChanged { user, .. } => ("user", user.to_string(), OfPerson, RuleMaker::Elsewhere),
            R::CanaryAdded { canary } => ("canary token", canary.to_string(), As("added".to_owned()), admin),
            R::CanaryRemoved { canary } => ("canary token", canary.to_string(), Nothing, admin),
            R::AllowedSet { list, entry, terms } => {
                ("allowed entry", format!("{list} {entry}"), As(said::allowed(self.version, *terms)), operator)
            }
            R::AllowedRemoved { list, entry } => ("allowed entry", format!("{list} {entry}"), Nothing, operator),
            R::SourceSet { source, version, settings, .. } => ("source", source.to_string(), As(said::source(*version, *settings)), admin),
            R::SourceRemoved { source, .. } => ("source", source.to_string(), Marked(REMOVED), admin),
            R::ChannelSet { channel, name, settings, .. } => ("channel", channel.to_string(), As(said::channel(name, *settings)), admin),
            R::ChannelRemoved { channel } => ("channel", channel.to_string(), Marked(REMOVED), admin),
            R::AutomationSet { automation, version, definition, status } => {
                let said = said::automation(*version, *definition, *status);
                ("automation", automation.to_string(), As(said), person(Permission::Invoke))
            }
            R::OrgCreated { org, .. } | R::OrgDisabled { org } => ("org", org.to_string(), Unchanged, operator),
            R::RetentionSet { retention } => {
                let said = serde_json::to_string(retention).ok().filter(|said| said != "{}");
                ("retention", IN_FORCE.to_owned(), said.map_or(Nothing, As), admin)
            }
            R::QuarantineSettled { invocation_id, .. } => ("quarantine", invocation_id.to_string(), Unchanged, person(Permission::Approve)),
        };
        RuleFacts { subject: (kind, name), in_force, maker }
    }
}

/// The name of what an org has one of.
const IN_FORCE: &str = "in force";

/// How what is in force is said: the same of the log as of the tables.
pub mod said {
    use super::{Amount, AutomationStatus, BTreeMap, Digest, Gate, Price, Terms, Timestamp, UserId};

    /// Everything that a grant permits, and who gave it.
    pub fn grant(terms: &Terms, expires_at: Timestamp, givers: &[UserId]) -> String {
        serde_json::json!({ "expires_at": expires_at, "givers": givers, "terms": terms }).to_string()
    }

    pub fn policies(digests: &BTreeMap<Gate, Digest>) -> String {
        digests.iter().map(|(gate, digest)| format!("{} {digest}", gate.as_str())).collect::<Vec<_>>().join(" ")
    }

    pub fn until(expires_at: Option<Timestamp>) -> String {
        expires_at.map_or_else(String::new, |at| format!(" until {}", at.as_micros()))
    }

    pub fn price(version: i64, price: &Price) -> String {
        let millionths = |amount: Amount| amount.as_millionths();
        let unit = price.unit.as_ref().map(|unit| format!(" of {} {}", unit.field, millionths(unit.at_most)));
        format!("version {version} at {}{}", millionths(price.usd), unit.unwrap_or_default())
    }

    pub fn allowed(version: i64, terms: Option<Digest>) -> String {
        format!("version {version}{}", terms.map(|terms| format!(" with {terms}")).unwrap_or_default())
    }

    pub fn source(version: i64, settings: Digest) -> String {
        format!("version {version} {settings}")
    }

    pub fn channel(name: &str, terms: Digest) -> String {
        format!("{name} {terms}")
    }

    pub fn automation(version: u32, definition: Digest, status: AutomationStatus) -> String {
        format!("{status} version {version} {definition}")
    }
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
