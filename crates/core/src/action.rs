//! An action: something that can be done, defined once and offered at every door.

use crate::artifact::ArtifactSpec;
use crate::limits::CALL_TIMEOUT_MS;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use utoipa::ToSchema;

/// The risk of an action, from R0 (harmless read) to R4 (destroys data). A definition without one is R4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum Tier {
    R0,
    R1,
    R2,
    R3,
    R4,
}

/// The tier in one word: read (R0, R1), write (R2, R3) or danger (R4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Read,
    Write,
    Danger,
}

crate::words!(Tier { R0 = "R0", R1 = "R1", R2 = "R2", R3 = "R3", R4 = "R4" });

impl Tier {
    pub const fn class(self) -> Class {
        match self {
            Self::R0 | Self::R1 => Class::Read,
            Self::R2 | Self::R3 => Class::Write,
            Self::R4 => Class::Danger,
        }
    }
}

crate::words!(Class { Read = "read", Write = "write", Danger = "danger" });

/// The text is not a source slug or an action id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an action id: expected `<source>.<name>`, such as `files.write_text`")]
pub struct InvalidActionId {
    pub text: String,
}

/// The slug of a source: a lower-case letter, then lower-case letters, digits, `_` or `-`, 32 at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SourceId(String);

impl SourceId {
    pub fn parse(text: &str) -> Result<Self, InvalidActionId> {
        let fits = (1..=32).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidActionId { text: text.chars().take(160).collect() }) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SourceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// `<source slug>.<name>`; the name is 1 to 128 of letters, digits, `_`, `-` and `.`, as the names of MCP tools are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId {
    text: String,
    dot: usize,
}

impl ActionId {
    pub fn parse(text: &str) -> Result<Self, InvalidActionId> {
        let invalid = || InvalidActionId { text: text.chars().take(160).collect() };
        let dot = text.find('.').ok_or_else(invalid)?;
        SourceId::parse(&text[..dot]).map_err(|_| invalid())?;
        let name = &text[dot + 1..];
        let fits =
            (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        if fits { Ok(Self { text: text.to_owned(), dot }) } else { Err(invalid()) }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn source(&self) -> &str {
        &self.text[..self.dot]
    }

    pub fn name(&self) -> &str {
        &self.text[self.dot + 1..]
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ActionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ActionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Names of the actions that are requests of MCP. Every MCP server can have them, and no tool has one of these names.
pub const PROTOCOL_ACTIONS: [&str; 5] = ["resources.list", "resources.templates.list", "resources.read", "prompts.list", "prompts.get"];

/// What an action does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    FilesystemRead,
    FilesystemWrite,
    NetworkCall,
    DeviceNotification,
    /// People see or hear it happen, such as a window that opens.
    UserVisible,
    Camera,
    Microphone,
}

crate::words!(Effect {
    FilesystemRead = "filesystem_read", FilesystemWrite = "filesystem_write", NetworkCall = "network_call",
    DeviceNotification = "device_notification", UserVisible = "user_visible", Camera = "camera", Microphone = "microphone",
});

impl Effect {
    /// After `it declares that it …`.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::FilesystemRead => "reads files",
            Self::FilesystemWrite => "changes files",
            Self::NetworkCall => "uses the network",
            Self::DeviceNotification => "notifies people",
            Self::UserVisible => "shows people something",
            Self::Camera => "uses the camera",
            Self::Microphone => "uses the microphone",
        }
    }

    /// Whether it records people. Such an action is never below tier R3, so a person decides about each call.
    pub const fn records_people(self) -> bool {
        match self {
            Self::Camera | Self::Microphone => true,
            Self::FilesystemRead | Self::FilesystemWrite | Self::NetworkCall | Self::DeviceNotification | Self::UserVisible => false,
        }
    }
}

/// The class of older contracts, which follows from the tier and the effects. Nothing is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SafetyClass {
    Low,
    Medium,
    High,
}

crate::words!(SafetyClass { Low = "LOW", Medium = "MEDIUM", High = "HIGH" });

/// Whether the effect can be reverted, known before it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reversibility {
    /// There is nothing to revert.
    NoEffect,
    /// The previous state is kept, so the effect can be reverted.
    Reversible,
    /// The effect is out of our reach once it has happened.
    NotReversible,
}

/// Whether calling twice with the same params has the effect of calling once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeatability {
    Repeatable,
    NotRepeatable,
}

/// Whether the source can say what would change without changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preview {
    Supported,
    Unsupported,
}

/// The isolation an action executes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Runs inside the server, in code we ship.
    InProcess,
    Default,
    HighIsolation,
    /// A program of others stays in the jail and answers many calls. It changes nothing here, and reaches others only where it may.
    Resident,
}

crate::words!(Profile { InProcess = "in_process", Default = "default", HighIsolation = "high_isolation", Resident = "resident" });

impl Profile {
    /// Whether each call runs code of a package.
    pub const fn is_package(self) -> bool {
        match self {
            Self::Default | Self::HighIsolation => true,
            Self::InProcess | Self::Resident => false,
        }
    }
}

/// The definition of an action. Its canonical JSON is what digests cover: a new field is a new digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    pub id: ActionId,
    pub version: String,
    pub title: String,
    pub description: String,
    pub tier: Tier,
    /// JSON Schema 2020-12 of the params.
    pub params_schema: Value,
    /// JSON Schema 2020-12 of the result.
    pub result_schema: Value,
    /// Permissions the principal must hold, checked by the rbac gate.
    pub requires: Vec<String>,
    pub effects: Vec<Effect>,
    pub timeout_ms: u64,
    /// The fields that `"idempotency_key": "auto"` is derived from, such as `["path", "sha256(text)"]`; empty: no automatic key.
    pub idempotency_key_fields: Vec<String>,
    pub reversibility: Reversibility,
    /// How long the effect can be reverted after it happened; `None`: for as long as the installation exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversible_seconds: Option<u64>,
    /// The names of the checks that the source makes after the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    pub repeatability: Repeatability,
    pub preview: Preview,
    /// The read that shows the same as a preview of this action. A dry run is made only if the mode of that read is `allow`.
    pub preview_reads: Option<ActionId>,
    pub profile: Profile,
    /// JSON pointers to params that the action needs unredacted. They are not redacted if a person has consented.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exempt_from_redaction: Vec<String>,
    /// Digest of the package code that the action runs, if it is not ours. Other code is another definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_sha256: Option<crate::Digest>,
    /// SHA-256 of the canonical JSON of the definition as another server sent it: it covers the members that we do not read, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_sha256: Option<crate::Digest>,
    /// Digest of where the server of an action is, and of the connection it is used with, if an admin added it. The same tool of another
    /// server, or for another account, is another definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_sha256: Option<crate::Digest>,
    /// SHA-256 of the guide of its source, where another server wrote it: agents obey it as they obey the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide_sha256: Option<crate::Digest>,
    /// The hosts that its code may reach over the network, each written like an operator's allow rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The artifacts that it makes: what the member `artifacts` of its result lists is kept apart. Of an action that declares none it is a
    /// member like the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produces_artifacts: Vec<ArtifactSpec>,
}

impl Action {
    /// An action that promises nothing: it cannot be reverted, repeated, previewed or checked. A definition sets whatever it promises
    /// beyond that.
    pub fn new(id: ActionId, tier: Tier) -> Self {
        Self {
            id,
            version: "1".to_owned(),
            title: String::new(),
            description: String::new(),
            tier,
            params_schema: json!({ "type": "object" }),
            result_schema: json!({}),
            requires: Vec::new(),
            effects: Vec::new(),
            timeout_ms: CALL_TIMEOUT_MS,
            idempotency_key_fields: Vec::new(),
            reversibility: Reversibility::NotReversible,
            reversible_seconds: None,
            checks: Vec::new(),
            repeatability: Repeatability::NotRepeatable,
            preview: Preview::Unsupported,
            preview_reads: None,
            profile: Profile::InProcess,
            exempt_from_redaction: Vec::new(),
            package_sha256: None,
            upstream_sha256: None,
            server_sha256: None,
            guide_sha256: None,
            hosts: Vec::new(),
            produces_artifacts: Vec::new(),
        }
    }

    /// Whether a dry run of it can be answered. A read changes nothing, so its dry run needs no preview.
    pub fn has_dry_run(&self) -> bool {
        self.preview == Preview::Supported || self.tier.class() == Class::Read
    }

    /// Whether it is of class HIGH and does more than read what an operator has listed: it changes something there, or records people.
    pub fn needs_consent(&self) -> bool {
        let does_more = self.tier.class() != Class::Read || self.effects.iter().any(|effect| effect.records_people());
        does_more && self.safety_class() == SafetyClass::High
    }

    pub fn safety_class(&self) -> SafetyClass {
        let reaches_far = |effect: &Effect| *effect == Effect::NetworkCall || effect.records_people();
        if self.effects.iter().any(reaches_far) {
            return SafetyClass::High;
        }
        match self.tier {
            Tier::R0 | Tier::R1 | Tier::R2 => SafetyClass::Low,
            Tier::R3 => SafetyClass::Medium,
            Tier::R4 => SafetyClass::High,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_safety_class_follows_from_the_tier_and_the_effects() {
        let class = |tier, effects: &[Effect]| {
            let id = ActionId::parse("kit.look").unwrap();
            Action { effects: effects.to_vec(), ..Action::new(id, tier) }.safety_class()
        };
        for (tier, expected) in [
            (Tier::R0, SafetyClass::Low),
            (Tier::R1, SafetyClass::Low),
            (Tier::R2, SafetyClass::Low),
            (Tier::R3, SafetyClass::Medium),
            (Tier::R4, SafetyClass::High),
        ] {
            assert_eq!(class(tier, &[]), expected, "{tier}");
            for effect in Effect::ALL {
                let far = effect.records_people() || effect == Effect::NetworkCall;
                assert_eq!(class(tier, &[effect]), if far { SafetyClass::High } else { expected }, "{tier} {effect}");
            }
        }
        let classes = [SafetyClass::Low, SafetyClass::Medium, SafetyClass::High];
        assert_eq!(json!(classes), json!(classes.map(SafetyClass::as_str)));
        assert_eq!(json!(Effect::ALL), json!(Effect::ALL.map(Effect::as_str)));
    }

    #[test]
    fn action_ids_have_a_source_and_a_name() {
        let id = ActionId::parse("files.write_text").unwrap();
        assert_eq!((id.source(), id.name()), ("files", "write_text"));
        for bad in ["", ".", "files", "files.", ".write", "Files.write", "fi les.write", "files.wri te", "files.wri/te", "9a.b"] {
            assert!(ActionId::parse(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(ActionId::parse(&format!("files.{}", "n".repeat(128))).is_ok());
        assert!(ActionId::parse(&format!("files.{}", "n".repeat(129))).is_err());
    }
}
