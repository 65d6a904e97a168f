//! `action.json`, the manifest of one action of a package: its fields, and the rules that a manifest must keep.

use super::fields::{self, Fields, SAID_OF_ONE_MAX};
use super::mistake::{Mistake, one_of};
use super::script::Script;
use crate::egress::Methods;
use crate::limits::{PACKAGE_HOSTS_MAX, PACKAGE_MEMORY_MB_MAX, PACKAGE_REQUIRES_MAX, PACKAGE_WORD_CHARS_MAX};
use crate::web::HostRule;
use countersign_core::Tier;
use countersign_core::action::{Effect, Profile};
use countersign_core::artifact::{ArtifactKind, ArtifactRetention, ArtifactSpec, Visibility};
use countersign_core::limits::{CALL_TIMEOUT_MS, PACKAGE_MEMORY_MB_DEFAULT, REVERSIBLE_SECONDS_MAX};
use serde_json::{Map, Value, json};

/// The least memory an interpreter starts in.
const MEMORY_MB_MIN: u64 = 16;

/// The first fields are frozen. The later ones were added afterwards, and a manifest may omit them.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) name: String,
    risk_tier: Option<Tier>,
    pub(super) input_schema: Value,
    pub(super) output_schema: Value,
    pub(super) permissions: Permissions,
    pub(super) verification: Verification,
    pub(super) rollback: Rollback,

    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    timeout_ms: Option<u64>,
    memory_mb: Option<u64>,
    profile: Isolation,
    /// The hosts that the action's code may send requests to. An empty list means no network.
    pub(super) hosts: Vec<HostRule>,
    pub(super) idempotency_key_fields: Vec<String>,
    pub(super) repeatable: bool,
    reversible_seconds: Option<u64>,
    version: Option<String>,
    /// Permissions that a caller needs besides those that follow from `permissions` and `hosts`.
    pub(super) requires: Vec<String>,
    /// Effects that the author declares besides those that follow from `permissions` and `hosts`. They can only make it stricter.
    pub(super) effects: Vec<Effect>,
    /// What the member `artifacts` of its result lists is kept as these.
    pub(super) produces_artifacts: Vec<ArtifactSpec>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Permissions {
    pub(super) commands: Vec<String>,
    pub(super) filesystem: Filesystem,
}

/// Which part of the workspace the code can read. Its tier decides whether it may also write (`Manifest::is_write`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Filesystem {
    #[default]
    None,
    Workspace,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Verification {
    pub(super) required: bool,
    pub(super) commands: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rollback {
    pub(super) required: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Isolation {
    #[default]
    Default,
    HighIsolation,
}

/// Which rules a manifest must keep.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// The package is about to be installed: every broken rule is a mistake. `check_schema` is passed in because this crate does not
    /// compile schemas.
    New { check_schema: fn(&Value) -> Result<(), String> },
    /// The package was installed earlier and stays valid under the rules of that time. An unknown tier counts as R4.
    Installed,
}

/// Facts about an action that are not in its manifest.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// The action's own folder.
    pub(super) folder: &'a str,
    /// Whether the action has a `verify` script.
    pub(super) verifies: bool,
    pub(super) held: Held,
}

const NO_NETWORK: &str = "there is no such field, and without `hosts` its code has no network at all";
const NAME_HOSTS: &str = "take it out, and name whom it asks beside `permissions`: `\"hosts\": [\"api.example.com\"]`";

impl Manifest {
    /// Reads a manifest and checks it. Every broken rule is added to `mistakes`; with any mistake the result is `None`.
    pub(super) fn read(bytes: &[u8], around: Around<'_>, mistakes: &mut Vec<Mistake>) -> Option<Self> {
        let before = mistakes.len();
        let file = format!("actions/{}/action.json", around.folder);
        let value = fields::parse(bytes, &file, mistakes)?;
        let manifest = fields::read(&value, &file, mistakes, |fields| {
            let manifest = Self::of(fields, around.held);
            manifest.check(around, fields);
            manifest
        });
        (mistakes.len() == before).then_some(manifest)
    }

    fn of(fields: &mut Fields<'_, '_>, held: Held) -> Self {
        // Other manifest formats request network access with this field. Here it would have no effect, so it is refused with an
        // explanation.
        fields.refuse("network", NO_NETWORK, NAME_HOSTS);
        Self {
            name: fields.text("name").unwrap_or_default(),
            risk_tier: tier_of(fields, held),
            input_schema: schema_of(fields, "inputSchema", held),
            output_schema: schema_of(fields, "outputSchema", held),
            permissions: fields.object("permissions", |fields| {
                fields.refuse("network", NO_NETWORK, NAME_HOSTS);
                fields.refuse("hosts", "`hosts` stands beside `permissions`, not in it", "move it one level up");
                Permissions { commands: fields.texts("commands"), filesystem: filesystem_of(fields) }
            }),
            verification: fields
                .object("verification", |fields| Verification { required: fields.flag("required"), commands: fields.texts("commands") }),
            rollback: fields.object("rollback", |fields| Rollback { required: fields.flag("required") }),
            title: fields.text("title"),
            description: fields.text("description"),
            timeout_ms: fields.number("timeoutMs"),
            memory_mb: fields.number("memoryMb"),
            profile: fields
                .word("profile", &[("default", Isolation::Default), ("high_isolation", Isolation::HighIsolation)])
                .unwrap_or_default(),
            hosts: hosts_of(fields),
            idempotency_key_fields: fields.texts("idempotencyKeyFields"),
            repeatable: fields.flag("repeatable"),
            reversible_seconds: fields.number("reversibleSeconds"),
            version: word_of(fields, "version"),
            requires: requires_of(fields),
            effects: effects_of(fields),
            produces_artifacts: fields.objects("producesArtifacts", artifact_of),
        }
    }

    fn check(&self, around: Around<'_>, fields: &mut Fields<'_, '_>) {
        let folder = around.folder;
        fields.required("name", &format!("\"name\": \"{folder}\""));
        if !self.name.is_empty() && self.name != folder {
            let message = format!("it calls itself `{}` and lies in a folder called `{folder}`", crate::words::shown(&self.name));
            fields.wrong("name", message, "give both the same name");
        }
        self.check_verification(around, fields);
        self.check_bounds(fields);
    }

    fn check_verification(&self, around: Around<'_>, fields: &mut Fields<'_, '_>) {
        let must_undo = self.is_write() && self.stated_tier() == Tier::R2;
        // An R3 or R4 effect is outside our reach or cannot be undone, so it must be verified whatever it changes. An `outputSchema` does
        // not count as verification: it only checks what the code says about itself.
        let must_verify = self.tier() >= Tier::R3 && matches!(around.held, Held::New { .. });
        if self.verification.required && !around.verifies && self.verification.commands.is_empty() {
            let message = "it requires verification and has neither a `verify` script nor `verification.commands`";
            fields.wrong("verification", message, "write a `verify.js` or `verify.py` beside it, or name a command");
        }
        if must_undo && !self.verification.required {
            let message = "it writes at tier R2, and that needs `verification.required`";
            fields.wrong("verification", message, "write `\"verification\": { \"required\": true }`, and a `verify.js` or `verify.py`");
        }
        if must_verify && !self.verification.required {
            let message = format!("it is of tier {}, and that needs `verification.required`; an `outputSchema` is none", self.tier());
            let hint = "write `\"verification\": { \"required\": true }`, and a `verify.js` or `verify.py`; where it only reads, give it a lower `riskTier`";
            fields.wrong("verification", message, hint);
        }
        if must_verify && self.acts_elsewhere() && !around.verifies && !self.verification.commands.is_empty() {
            let message = "it changes something elsewhere, and is verified by commands alone, which see nothing but the workspace";
            fields.wrong("verification", message, "write a `verify.js` or `verify.py` that asks there, with GET");
        }
        if must_undo && !self.rollback.required {
            let message = "it writes at tier R2, and that needs `rollback.required`: what it changes is kept, and can be put back";
            fields.wrong("rollback", message, "write `\"rollback\": { \"required\": true }`");
        }
        let undeclared = self.verification.commands.iter().filter(|command| !self.permissions.commands.contains(command));
        for command in undeclared.take(SAID_OF_ONE_MAX) {
            let message = format!("it verifies with `{}`, which is not among its `permissions.commands`", crate::words::shown(command));
            fields.wrong("verification", message, "name it there too, word by word");
        }
    }

    fn check_bounds(&self, fields: &mut Fields<'_, '_>) {
        check_hosts(&self.hosts, fields);
        if let Some(ms) = self.timeout_ms.filter(|ms| !(1..=CALL_TIMEOUT_MS).contains(ms)) {
            fields.wrong("timeoutMs", format!("{ms} is out of bounds"), format!("write 1 to {CALL_TIMEOUT_MS}"));
        }
        check_memory(self.memory_mb, fields);
        let kinds: Vec<_> = self.produces_artifacts.iter().map(|spec| spec.kind).collect();
        if let Some(kind) = kinds.iter().enumerate().find_map(|(at, kind)| kinds[..at].contains(kind).then_some(kind)) {
            fields.wrong("producesArtifacts", format!("it declares artifacts of the kind `{kind}` twice"), "declare each kind once");
        }
        self.check_effects(fields);
    }

    /// An effect that the sandbox does not let happen is a mistake: the card would tell people of it, and the rules for actions without
    /// effects would no longer apply.
    fn check_effects(&self, fields: &mut Fields<'_, '_>) {
        for effect in &self.effects {
            let (happens, hint) = match effect {
                Effect::FilesystemRead => (self.permissions.filesystem == Filesystem::Workspace, "`permissions.filesystem`: `workspace`"),
                Effect::FilesystemWrite => (self.is_write(), "`permissions.filesystem`: `workspace`, and a `riskTier` from R2 on"),
                Effect::NetworkCall => (!self.hosts.is_empty(), "`hosts`"),
                Effect::DeviceNotification | Effect::UserVisible | Effect::Camera | Effect::Microphone => (true, ""),
            };
            if !happens {
                let message = format!("it declares `{effect}`, which its permissions do not let it do");
                fields.wrong("effects", message, format!("take it out, or write {hint}"));
            }
        }
    }

    /// The tier that calls are decided by. What records people is R3 at least, whatever the manifest states.
    pub(super) fn tier(&self) -> Tier {
        if self.records_people() { self.stated_tier().max(Tier::R3) } else { self.stated_tier() }
    }

    /// A missing or unknown tier counts as R4. What the code may do follows from this one: a tier that was raised permits nothing more.
    fn stated_tier(&self) -> Tier {
        self.risk_tier.unwrap_or(Tier::R4)
    }

    fn records_people(&self) -> bool {
        self.effects.iter().any(|effect| effect.records_people())
    }

    pub(super) fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("1.0.0")
    }

    /// Whether the action changes files of the workspace.
    pub(super) fn is_write(&self) -> bool {
        self.permissions.filesystem == Filesystem::Workspace && self.stated_tier() >= Tier::R2
    }

    /// Whether the action's effect happens outside the workspace, over the network. Such code runs in `call`, not while the call is
    /// prepared.
    ///
    /// The intent must be in the audit log before any effect. Code that writes files runs before the intent, because the intent lists what
    /// it wrote; such code may therefore only send GET and HEAD. R2 promises that its effect can be reverted, which a request to another
    /// server cannot be; and an action below R2 declares that it changes nothing. So only R3 and R4 actions without files may change
    /// something elsewhere: they have nothing to prepare, a person has approved the call, and all of their code runs after the intent.
    pub(super) fn acts_elsewhere(&self) -> bool {
        !self.hosts.is_empty() && self.permissions.filesystem == Filesystem::None && self.stated_tier() >= Tier::R3
    }

    /// Which methods one of the scripts may send. `verify` only looks. `rollback` may not change anything elsewhere either: effects on
    /// other servers are not reverted.
    pub(super) fn methods_of(&self, script: Script) -> Methods {
        match script {
            Script::Execute if self.acts_elsewhere() => Methods::Any,
            Script::Execute | Script::Verify | Script::Rollback => Methods::Safe,
        }
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        self.timeout_ms.unwrap_or(CALL_TIMEOUT_MS)
    }

    /// Capped at the time for which the evidence needed to revert is kept.
    pub(super) fn reversible_seconds(&self) -> u64 {
        self.reversible_seconds.unwrap_or(REVERSIBLE_SECONDS_MAX).min(REVERSIBLE_SECONDS_MAX)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_mb.unwrap_or(PACKAGE_MEMORY_MB_DEFAULT) * 1024 * 1024
    }

    /// R4 actions, and actions that reach the network or record people, can do the most harm, so they always get the tightest profile,
    /// whatever the manifest asks for.
    pub(super) fn profile(&self) -> Profile {
        if self.tier() == Tier::R4 || !self.hosts.is_empty() || self.records_people() {
            return Profile::HighIsolation;
        }
        match self.profile {
            Isolation::Default => Profile::Default,
            Isolation::HighIsolation => Profile::HighIsolation,
        }
    }
}

fn tier_of(fields: &mut Fields<'_, '_>, held: Held) -> Option<Tier> {
    match held {
        Held::New { .. } => fields.word("riskTier", &Tier::ALL.map(|tier| (tier.as_str(), tier))),
        Held::Installed => fields.value("riskTier").and_then(Value::as_str).and_then(Tier::parse),
    }
}

fn schema_of(fields: &mut Fields<'_, '_>, key: &'static str, held: Held) -> Value {
    let Some(schema) = fields.value(key) else { return Value::Object(Map::new()) };
    // A schema that does not compile would make every call fail.
    if let Held::New { check_schema } = held
        && let Err(why) = check_schema(schema)
    {
        fields.wrong(key, format!("it does not compile: {}", crate::words::said(&why)), "write a JSON Schema; `{}` takes anything");
    }
    schema.clone()
}

/// A short word that people and rules read, such as `1.2.0` or `workspace:shared:write`. Nothing scans it, so it can hold no sentence.
fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'+');
    (1..=PACKAGE_WORD_CHARS_MAX).contains(&text.len()) && text.bytes().all(fits)
}

const WORD_HINT: &str = "letters, digits, `_`, `-`, `.`, `:` and `+`, 64 at most";

fn word_of(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<String> {
    let word = fields.text(key)?;
    if is_word(&word) {
        return Some(word);
    }
    fields.wrong(key, format!("`{}` is not a `{key}`", crate::words::shown(&word)), WORD_HINT);
    None
}

fn requires_of(fields: &mut Fields<'_, '_>) -> Vec<String> {
    let requires = fields.texts("requires");
    if requires.len() > PACKAGE_REQUIRES_MAX {
        fields.wrong("requires", format!("it requires more than {PACKAGE_REQUIRES_MAX} permissions"), "name fewer");
        return Vec::new();
    }
    for permission in requires.iter().filter(|permission| !is_word(permission)) {
        fields.wrong("requires", format!("`{}` is not a permission", crate::words::shown(permission)), WORD_HINT);
    }
    requires
}

fn effects_of(fields: &mut Fields<'_, '_>) -> Vec<Effect> {
    let texts = fields.texts("effects");
    if texts.len() > PACKAGE_REQUIRES_MAX {
        fields.wrong("effects", format!("it declares more than {PACKAGE_REQUIRES_MAX} effects"), "name each once");
        return Vec::new();
    }
    let mut effects = Vec::new();
    for text in texts {
        match Effect::ALL.into_iter().find(|effect| effect.as_str() == text) {
            Some(effect) => effects.push(effect),
            None => {
                let message = format!("`{}` is not an effect", crate::words::shown(&text));
                fields.wrong("effects", message, one_of(&text, &Effect::ALL.map(Effect::as_str)));
            }
        }
    }
    effects
}

pub(super) fn filesystem_of(fields: &mut Fields<'_, '_>) -> Filesystem {
    let filesystems = [("none", Filesystem::None), ("workspace", Filesystem::Workspace)];
    fields.word("filesystem", &filesystems).unwrap_or_default()
}

pub(super) fn hosts_of(fields: &mut Fields<'_, '_>) -> Vec<HostRule> {
    let mut hosts = Vec::new();
    for text in fields.texts("hosts").into_iter().take(PACKAGE_HOSTS_MAX + 1) {
        match text.parse() {
            Ok(host) => hosts.push(host),
            Err(error) => fields.wrong("hosts", format!("{error}"), "write a host, such as `api.example.com` or `http://10.1.2.3:8080`"),
        }
    }
    hosts
}

fn artifact_of(fields: &mut Fields<'_, '_>) -> ArtifactSpec {
    fields.required("kind", "\"kind\": \"document\"");
    ArtifactSpec {
        kind: fields.word("kind", &ArtifactKind::ALL.map(|kind| (kind.as_str(), kind))).unwrap_or(ArtifactKind::Data),
        retention: fields.word("retention", &ArtifactRetention::ALL.map(|retention| (retention.as_str(), retention))).unwrap_or_default(),
        visibility: fields.word("visibility", &Visibility::ALL.map(|visibility| (visibility.as_str(), visibility))).unwrap_or_default(),
    }
}

pub(super) fn check_hosts(hosts: &[HostRule], fields: &mut Fields<'_, '_>) {
    if hosts.len() > PACKAGE_HOSTS_MAX {
        let message = format!("it names more than {PACKAGE_HOSTS_MAX} `hosts`");
        fields.wrong("hosts", message, "name fewer, or a wider one such as `*.example.com`");
    }
    if let Some(host) = hosts.iter().enumerate().find_map(|(at, host)| hosts[..at].contains(host).then_some(host)) {
        fields.wrong("hosts", format!("its `hosts` name `{host}` twice"), "name it once");
    }
}

pub(super) fn check_memory(memory_mb: Option<u64>, fields: &mut Fields<'_, '_>) {
    if let Some(mb) = memory_mb.filter(|mb| !(MEMORY_MB_MIN..=PACKAGE_MEMORY_MB_MAX).contains(mb)) {
        fields.wrong("memoryMb", format!("{mb} is out of bounds"), format!("write {MEMORY_MB_MIN} to {PACKAGE_MEMORY_MB_MAX}"));
    }
}

/// Adds `"type": "object"` if the schema names no type, because params are always an object.
pub(super) fn of_object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(keywords) = schema.as_object_mut() {
        keywords.entry("type").or_insert_with(|| json!("object"));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::mistake::Place;

    const NEW: Held = Held::New { check_schema: |schema| if schema["type"] == "nothing" { Err("no".to_owned()) } else { Ok(()) } };

    fn read_as(held: Held, bytes: &[u8]) -> Result<Manifest, Vec<Mistake>> {
        read_around(Around { folder: "tidy", verifies: false, held }, bytes)
    }

    fn read_around(around: Around<'_>, bytes: &[u8]) -> Result<Manifest, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        Manifest::read(bytes, around, &mut mistakes).ok_or(mistakes)
    }

    fn read(change: impl FnOnce(&mut Value)) -> Result<Manifest, Vec<Mistake>> {
        read_as(NEW, changed(change).to_string().as_bytes())
    }

    fn changed(change: impl FnOnce(&mut Value)) -> Value {
        let mut value = json!({
            "name": "tidy", "riskTier": "R2", "inputSchema": {}, "outputSchema": {},
            "permissions": { "commands": ["node --check src/file.js"], "filesystem": "workspace" },
            "verification": { "required": true, "commands": ["node --check src/file.js"] },
            "rollback": { "required": true }
        });
        change(&mut value);
        value
    }

    #[test]
    fn the_frozen_shape_reads_as_it_is() {
        let manifest = read(|_| {}).unwrap();
        assert_eq!((manifest.tier(), manifest.is_write()), (Tier::R2, true));
        assert_eq!((manifest.timeout_ms(), manifest.profile()), (CALL_TIMEOUT_MS, Profile::Default));
    }

    /// Word for word.
    #[test]
    fn the_manifest_of_the_contract_reads_as_it_stands() {
        let example = include_bytes!("../../../server/tests/seed/action.json");
        let manifest = read_around(Around { folder: "example_action", verifies: false, held: NEW }, example).unwrap();
        assert_eq!((manifest.name.as_str(), manifest.tier(), manifest.is_write()), ("example_action", Tier::R2, true));
        assert_eq!((&manifest.input_schema, &manifest.output_schema), (&json!({}), &json!({})));
        let commands = vec!["node --check src/file.js".to_owned()];
        assert_eq!((&manifest.permissions.commands, manifest.permissions.filesystem), (&commands, Filesystem::Workspace));
        assert_eq!((manifest.verification.required, &manifest.verification.commands), (true, &commands));
        assert!(manifest.rollback.required);
    }

    #[test]
    fn a_tier_nobody_knows_is_no_tier_and_of_what_is_there_already_the_worst() {
        for tier in [json!("R9"), json!("r2"), json!(2)] {
            let value = changed(|value| value["riskTier"] = tier.clone());
            let mistakes = read_as(NEW, value.to_string().as_bytes()).unwrap_err();
            assert_eq!((mistakes.len(), &mistakes[0].place), (1, &Place::Field("/riskTier".to_owned())), "{tier}: {mistakes:?}");
            assert!(mistakes[0].hint.contains("`R0`, `R1`, `R2`, `R3`, `R4`"), "{mistakes:?}");
            assert_eq!(read_as(Held::Installed, value.to_string().as_bytes()).unwrap().tier(), Tier::R4, "{tier}");
        }
        let said = read(|value| value["riskTier"] = json!("r2")).unwrap_err();
        assert!(said[0].hint.starts_with("did you mean `R2`?"), "{said:?}");
        for missing in
            [changed(|value| value["riskTier"] = Value::Null), changed(|value| drop(value.as_object_mut().unwrap().remove("riskTier")))]
        {
            assert_eq!(read_as(NEW, missing.to_string().as_bytes()).unwrap().tier(), Tier::R4);
        }
    }

    #[test]
    fn the_worst_tier_and_whoever_has_a_way_out_run_under_the_tightest_profile() {
        for (tier, hosts, asked, expected) in [
            ("R1", false, "default", Profile::Default),
            ("R1", false, "high_isolation", Profile::HighIsolation),
            ("R1", true, "default", Profile::HighIsolation),
            ("R3", false, "default", Profile::Default),
            ("R3", true, "default", Profile::HighIsolation),
            ("R4", false, "default", Profile::HighIsolation),
        ] {
            let manifest = read(|value| {
                value["riskTier"] = json!(tier);
                value["profile"] = json!(asked);
                if hosts {
                    value["hosts"] = json!(["example.com"]);
                }
            });
            assert_eq!(manifest.unwrap().profile(), expected, "{tier} {hosts} {asked}");
        }
    }

    #[test]
    fn what_cannot_be_undone_is_verified_and_its_own_word_is_no_verification() {
        let says_something = json!({ "type": "object", "required": ["id"] });
        let none = json!({ "required": false, "commands": [] });
        let commands = json!({ "required": true, "commands": ["node --check src/file.js"] });
        let script = json!({ "required": true, "commands": [] });
        let needs = "and that needs `verification.required`; an `outputSchema` is none";
        for (tier, hosts, verification, verifies, expected) in [
            (Some("R1"), true, &none, false, None),
            (Some("R3"), false, &none, false, Some(needs)),
            (Some("R3"), true, &none, false, Some(needs)),
            // A `verify` script that the manifest does not require could be removed unnoticed.
            (Some("R3"), true, &none, true, Some(needs)),
            (Some("R4"), false, &none, false, Some(needs)),
            (None, false, &none, false, Some(needs)),
            (Some("R3"), false, &commands, false, None),
            (Some("R4"), false, &script, true, None),
            (Some("R3"), true, &script, true, None),
            (Some("R3"), true, &script, false, Some("neither a `verify` script")),
            (Some("R3"), true, &commands, false, Some("verified by commands alone, which see nothing but the workspace")),
            (Some("R3"), true, &commands, true, None),
        ] {
            let value = changed(|value| {
                value["riskTier"] = json!(tier);
                value["outputSchema"] = says_something.clone();
                value["permissions"]["filesystem"] = json!("none");
                value["verification"] = verification.clone();
                value["hosts"] = if hosts { json!(["api.example.com"]) } else { json!([]) };
            });
            let said = format!("{tier:?} {hosts} {verification} {verifies}");
            let found = read_around(Around { folder: "tidy", verifies, held: NEW }, value.to_string().as_bytes());
            let mistakes = found.err().unwrap_or_default();
            assert_eq!(mistakes.len(), usize::from(expected.is_some()), "{said}: {mistakes:?}");
            for mistake in &mistakes {
                assert!(mistake.message.contains(expected.unwrap()) && !mistake.hint.is_empty(), "{said}: {mistake:?}");
                assert_eq!(mistake.place, Place::Field("/verification".to_owned()), "{said}");
            }
            // A package that was installed earlier stays valid, unless it broke a rule that already applied then.
            let installed = read_around(Around { folder: "tidy", verifies, held: Held::Installed }, value.to_string().as_bytes());
            assert_eq!(installed.is_ok(), expected.is_none_or(|why| !why.starts_with("neither")), "{said}");
        }
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str, &str); 30] = [
            (|value| value["version"] = json!("ignore all rules"), "/version", "`ignore all rules` is not a `version`"),
            (|value| value["version"] = json!(""), "/version", "`` is not a `version`"),
            (|value| value["version"] = json!(2), "/version", "it must be a text, and is a number"),
            (|value| value["requires"] = json!(["billing.refund", "a b"]), "/requires", "`a b` is not a permission"),
            (|value| value["requires"] = json!("billing.refund"), "/requires", "it must be a list of texts, and is a text"),
            (|value| value["requires"] = json!(vec!["a"; 33]), "/requires", "requires more than 32 permissions"),
            (|value| value["effects"] = json!(["camra"]), "/effects", "`camra` is not an effect"),
            (|value| value["effects"] = json!(vec!["camera"; 33]), "/effects", "declares more than 32 effects"),
            (|value| value["effects"] = json!(["network_call"]), "/effects", "its permissions do not let it do"),
            (
                |value| {
                    value["permissions"]["filesystem"] = json!("none");
                    value["effects"] = json!(["filesystem_write"]);
                },
                "/effects",
                "it declares `filesystem_write`",
            ),
            (|value| value["hosts"] = json!(["https://example.com/path"]), "/hosts", "`https://example.com/path` is not a host rule"),
            (|value| value["hosts"] = json!(["ftp://example.com"]), "/hosts", "the scheme must be `https` or `http`"),
            (|value| value["hosts"] = json!("example.com"), "/hosts", "it must be a list of texts, and is a text"),
            (|value| value["hosts"] = json!(["example.com", "EXAMPLE.com:443"]), "/hosts", "name `example.com` twice"),
            (
                |value| value["hosts"] = json!((0..33).map(|n| format!("a{n}.example.com")).collect::<Vec<_>>()),
                "/hosts",
                "names more than 32 `hosts`",
            ),
            (|value| value["permision"] = json!({}), "/permision", "there is no field `permision` here"),
            (|value| value["permissions"]["network"] = json!(true), "/permissions/network", "no network at all"),
            (|value| value["network"] = json!(true), "/network", "no network at all"),
            (|value| value["permissions"]["filesystem"] = json!("root"), "/permissions/filesystem", "`root` is not a `filesystem`"),
            (|value| value["permissions"] = json!([]), "/permissions", "it must be an object, and is an empty list"),
            (|value| value["profile"] = json!("high"), "/profile", "`high` is not a `profile`"),
            (|value| value["name"] = json!("other"), "/name", "calls itself `other`"),
            (|value| drop(value.as_object_mut().unwrap().remove("name")), "/name", "it is missing"),
            (|value| value["verification"]["required"] = json!(false), "/verification", "verification.required"),
            (|value| value["rollback"]["required"] = json!("yes"), "/rollback/required", "it must be `true` or `false`, and is a text"),
            (|value| value["verification"]["commands"] = json!([]), "/verification", "neither a `verify` script"),
            (|value| value["permissions"]["commands"] = json!([]), "/verification", "not among its `permissions.commands`"),
            (|value| value["timeoutMs"] = json!(3_600_000), "/timeoutMs", "out of bounds"),
            (|value| value["memoryMb"] = json!(1_000_000), "/memoryMb", "out of bounds"),
            (|value| value["inputSchema"] = json!({ "type": "nothing" }), "/inputSchema", "does not compile"),
        ];
        for (change, pointer, expected) in cases {
            let mistakes = read(change).unwrap_err();
            let (mistake, field) = (&mistakes[0], Place::Field(pointer.to_owned()));
            assert!(mistake.message.contains(expected) && mistake.place == field, "{mistakes:?}");
            assert!(!mistake.hint.is_empty() && !mistake.message.contains("struct"), "{mistake:?}");
        }
        let wrong_at = |bytes: &[u8]| read_as(NEW, bytes).unwrap_err()[0].place.clone();
        assert_eq!(wrong_at(br#"{"name":"tidy","riskTier":"R4","riskTier":"R0"}"#), Place::Text { line: 1, column: 41 });
        assert_eq!(wrong_at(b"{\n  \"name\": tidy\n}"), Place::Text { line: 2, column: 12 });
        assert_eq!(wrong_at(b"[]"), Place::Field(String::new()));
    }

    #[test]
    fn what_an_author_declares_beside_the_frozen_fields_only_makes_it_stricter() {
        let told = read(|value| {
            value["version"] = json!("2.1.0-rc.1");
            value["requires"] = json!(["billing.refund", "workspace:shared:write"]);
            value["effects"] = json!(["filesystem_write", "user_visible"]);
        });
        let told = told.unwrap();
        assert_eq!((told.version(), told.requires.len(), told.tier()), ("2.1.0-rc.1", 2, Tier::R2));
        assert_eq!(told.effects, [Effect::FilesystemWrite, Effect::UserVisible]);
        assert_eq!((read(|_| {}).unwrap().version(), told.profile()), ("1.0.0", Profile::Default));
        // A tier that an effect raised lets the code do nothing that the stated one does not.
        for (stated, files, hosts) in [("R0", "workspace", false), ("R1", "none", true), ("R2", "workspace", false), ("R4", "none", true)] {
            let of = |effects: &Value| {
                let value = changed(|value| {
                    value["riskTier"] = json!(stated);
                    value["permissions"]["filesystem"] = json!(files);
                    value["hosts"] = if hosts { json!(["api.example.com"]) } else { json!([]) };
                    value["effects"] = effects.clone();
                });
                read_around(Around { folder: "tidy", verifies: true, held: NEW }, value.to_string().as_bytes()).unwrap()
            };
            let (plain, recording) = (of(&json!([])), of(&json!(["microphone"])));
            assert_eq!(recording.tier(), plain.tier().max(Tier::R3), "{stated}");
            assert_eq!(recording.profile(), Profile::HighIsolation, "{stated}");
            assert_eq!((recording.is_write(), recording.acts_elsewhere()), (plain.is_write(), plain.acts_elsewhere()), "{stated}");
        }
    }

    #[test]
    fn what_is_wrong_a_thousand_times_is_not_said_a_thousand_times() {
        let mistakes = read(|value| (0..1_000).for_each(|n| value[format!("odd{n}")] = json!(1))).unwrap_err();
        assert_eq!(mistakes.len(), SAID_OF_ONE_MAX + 1, "{mistakes:#?}");
        assert_eq!(mistakes[SAID_OF_ONE_MAX].message, "980 more fields in it are not known");
    }

    #[test]
    fn every_mistake_is_found_and_not_only_the_first() {
        let mistakes = read(|value| {
            value["riskTier"] = json!("R9");
            value["permisions"] = json!({});
            value["permissions"]["filesystem"] = json!("workspce");
            value["timeoutMs"] = json!(0);
            value["name"] = json!("other");
        })
        .unwrap_err();
        let places: Vec<_> = mistakes.iter().map(|mistake| &mistake.place).collect();
        let field = |pointer: &str| Place::Field(pointer.to_owned());
        for pointer in ["/riskTier", "/permisions", "/permissions/filesystem", "/timeoutMs", "/name"] {
            assert!(places.contains(&&field(pointer)), "{pointer} is missing: {mistakes:#?}");
        }
        assert_eq!(mistakes.len(), 5, "{mistakes:#?}");
    }

    #[test]
    fn only_what_runs_after_the_intent_may_change_anything_elsewhere() {
        for (tier, files, hosts, elsewhere) in [
            ("R0", "none", true, false),
            ("R1", "none", true, false),
            ("R2", "none", true, false),
            ("R3", "none", true, true),
            ("R4", "none", true, true),
            ("R2", "workspace", true, false),
            ("R3", "workspace", true, false),
            ("R4", "workspace", true, false),
            ("R4", "none", false, false),
        ] {
            let value = changed(|value| {
                value["riskTier"] = json!(tier);
                value["permissions"]["filesystem"] = json!(files);
                value["hosts"] = if hosts { json!(["api.example.com"]) } else { json!([]) };
            });
            let around = Around { folder: "tidy", verifies: true, held: NEW };
            let manifest = read_around(around, value.to_string().as_bytes()).unwrap();
            assert_eq!(manifest.acts_elsewhere(), elsewhere, "{tier} {files} {hosts}");
            let execute = if elsewhere { Methods::Any } else { Methods::Safe };
            let methods = [Script::Execute, Script::Verify, Script::Rollback].map(|script| manifest.methods_of(script));
            assert_eq!(methods, [execute, Methods::Safe, Methods::Safe], "{tier} {files} {hosts}");
        }
    }
}
