//! Sessions, and the spaces they belong to.

use crate::{AutomationId, InvocationId, Mode, OrgId, PrincipalId, SessionId, SourceId, SpaceId, Tier, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// A label of a session, and the call that set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLabel {
    /// `private_data` or `untrusted_content`.
    pub label: String,
    pub at: Timestamp,
    /// Absent: what started its run brought it in.
    pub invocation: Option<InvocationId>,
}

/// Whether a person sits at the other end; decides how long an approval may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    Interactive,
    Unattended,
}

crate::words!(Attendance { Interactive = "interactive", Unattended = "unattended" });

impl Attendance {
    /// How long a pending invocation waits for a person.
    pub const fn approval_seconds(self) -> u64 {
        match self {
            Self::Interactive => crate::limits::APPROVAL_INTERACTIVE_SECONDS,
            Self::Unattended => crate::limits::APPROVAL_UNATTENDED_SECONDS,
        }
    }
}

/// One agent's working context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub org: OrgId,
    pub space: SpaceId,
    /// Its creator: a person, or a service with the permission.
    pub created_by: PrincipalId,
    /// The person it works for, if there is one.
    pub owner: Option<UserId>,
    pub title: String,
    pub attendance: Attendance,
    pub automation: Option<AutomationId>,
    /// The person behind whoever asked for its run by name, if somebody did.
    #[serde(default)]
    pub asked_by: Option<UserId>,
    /// The sources it is connected to; absent: all. Any other source does not exist for it.
    pub sources: Option<BTreeSet<SourceId>>,
    pub created_at: Timestamp,
    /// After this, no call can be made in it, except reverts.
    pub ended_at: Option<Timestamp>,
}

impl Session {
    /// Whether it is connected to this source, as far as the session says. The source may have its own word on the space.
    pub fn is_connected_to(&self, source: &SourceId) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.contains(source))
    }
}

/// How strict a space is, from green (the modes alone decide) to black (only R0 reads run, each with approval).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    Green,
    Amber,
    Red,
    Black,
}

crate::words!(Band { Green = "green", Amber = "amber", Red = "red", Black = "black" });

impl Band {
    /// What is redacted before a source sees it, in a space that has no setting of its own.
    pub const fn redacts(self) -> &'static [Kind] {
        match self {
            Self::Green => &[],
            Self::Amber | Self::Red | Self::Black => &[Kind::Email, Kind::Phone, Kind::Face],
        }
    }

    /// The loosest mode that the band permits for a tier.
    pub const fn tolerated(self, tier: Tier) -> Mode {
        match (self, tier) {
            (Self::Green, _) | (Self::Amber, Tier::R0 | Tier::R1) | (Self::Red, Tier::R0) => Mode::Allow,
            (Self::Amber, Tier::R2 | Tier::R3 | Tier::R4) | (Self::Red, Tier::R1 | Tier::R2 | Tier::R3) | (Self::Black, Tier::R0) => {
                Mode::RequireApproval
            }
            (Self::Red, Tier::R4) | (Self::Black, Tier::R1 | Tier::R2 | Tier::R3 | Tier::R4) => Mode::Deny,
        }
    }
}

/// Whether whoever asked, or owns the agent that asked, or asked for the run that asked, may also answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelfApproval {
    Allowed,
    Refused,
}

crate::words!(SelfApproval { Allowed = "allowed", Refused = "refused" });

/// What a space keeps of calls that have ended: their texts, redacted and truncated, or only digests of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keeps {
    #[default]
    Texts,
    Digests,
}

crate::words!(Keeps { Texts = "texts", Digests = "digests" });

/// A scope inside an org.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub id: SpaceId,
    pub org: OrgId,
    /// Unique in its org; the first one is `main`.
    pub name: String,
    pub band: Band,
    pub self_approval: SelfApproval,
    /// How many people must approve a call.
    pub quorum: Quorum,
    /// What is redacted before a source sees it.
    pub redaction: SpaceRedaction,
    /// What stays of calls that have ended.
    pub keeps: Keeps,
    /// The people who may act in it, and who may let others act; absent: everybody in the org.
    #[serde(default)]
    pub members: Option<BTreeSet<UserId>>,
    /// Whether it only observes: calls that need approval run, and are noted, but those of R4.
    pub observes: bool,
    /// Whether a call of class HIGH that does more than read needs the consent of the person behind it, or an approval.
    #[serde(default)]
    pub asks_consent: bool,
    /// What its automations are given for an input whose default is `$space_default`, by the name of the input.
    #[serde(default)]
    pub defaults: BTreeMap<String, Value>,
    pub created_at: Timestamp,
}

impl Space {
    /// What is redacted before a source sees it: what was set, or what the band says.
    pub fn redacted_kinds(&self) -> BTreeSet<Kind> {
        self.redaction.kinds.clone().unwrap_or_else(|| self.band.redacts().iter().copied().collect())
    }

    /// Whether this person, and whoever acts for them, may act in it. Where it has members, nobody acts without a person who is one.
    pub fn lets_in(&self, person: Option<&UserId>) -> bool {
        self.members.as_ref().is_none_or(|members| person.is_some_and(|person| members.contains(person)))
    }

    /// Whether this person may approve what the owner, or an agent of theirs, asks for in this session.
    pub fn lets_approve(&self, user: &UserId, owner: Option<&UserId>, session: &Session) -> bool {
        let is_own = owner == Some(user) || session.asked_by.as_ref() == Some(user);
        self.lets_in(Some(user)) && (self.self_approval == SelfApproval::Allowed || !is_own)
    }
}

/// How many different people must approve a call, by its tier. The default is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quorum(BTreeMap<Tier, u32>);

impl Quorum {
    /// The highest number of people; more would block a small org for ever.
    pub const PEOPLE_MAX: u32 = 10;

    /// `None` if a number is not between 1 and `PEOPLE_MAX`.
    pub fn new(by_tier: BTreeMap<Tier, u32>) -> Option<Self> {
        let fits = by_tier.values().all(|people| (1..=Self::PEOPLE_MAX).contains(people));
        // One is the default, so it is not stored: two equal rules are then equal values.
        fits.then(|| Self(by_tier.into_iter().filter(|(_, people)| *people > 1).collect()))
    }

    pub fn of(&self, tier: Tier) -> u32 {
        self.0.get(&tier).copied().unwrap_or(1)
    }

    pub const fn by_tier(&self) -> &BTreeMap<Tier, u32> {
        &self.0
    }
}

/// What can be redacted from params before a source sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RedactionKind)]
pub enum Kind {
    Email,
    Phone,
    Secret,
    /// Painted over inside an image. It is counted, but has no token and cannot be restored.
    Face,
}

crate::words!(Kind { Email = "email", Phone = "phone", Secret = "secret", Face = "face" });

/// What a space redacts before a source sees it; by default what its band says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpaceRedaction {
    /// `None`: what the band says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<BTreeSet<Kind>>,
    /// Two capital letters each: the countries whose national phone numbers are recognised.
    pub regions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_space_redacts_what_was_set_or_else_what_its_band_says() {
        let kinds = |text: serde_json::Value| serde_json::from_value::<SpaceRedaction>(text).unwrap().kinds;
        assert_eq!(kinds(json!({})), None);
        assert_eq!(kinds(json!({ "kinds": [], "regions": [] })), Some(BTreeSet::new()));
        assert_eq!(json!(SpaceRedaction::default()), json!({ "regions": [] }));
        for band in Band::ALL {
            let at = Timestamp::from_micros(0);
            let mut space = Space {
                id: SpaceId::new(at, [1; 10]),
                org: OrgId::new(at, [2; 10]),
                name: "main".to_owned(),
                band,
                self_approval: SelfApproval::Allowed,
                quorum: Quorum::default(),
                redaction: SpaceRedaction::default(),
                keeps: Keeps::default(),
                members: None,
                observes: false,
                asks_consent: false,
                defaults: BTreeMap::new(),
                created_at: at,
            };
            assert_eq!(space.redacted_kinds().is_empty(), band == Band::Green, "{}", band.as_str());
            space.redaction.kinds = Some(BTreeSet::from([Kind::Secret]));
            assert_eq!(space.redacted_kinds(), BTreeSet::from([Kind::Secret]));
            space.redaction.kinds = Some(BTreeSet::new());
            assert!(space.redacted_kinds().is_empty(), "{}", band.as_str());
        }
    }
}
