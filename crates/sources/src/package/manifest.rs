//! `action.json`: what an action of a package says of itself, and which of it is refused. A field nobody knows is refused by its name:
//! a misspelt permission must not be one that was never asked for.

use super::run::Script;
use crate::web::HostRule;
use countersign_core::Tier;
use countersign_core::action::Profile;
use countersign_core::limits::{
    CALL_TIMEOUT_MS, PACKAGE_HOSTS_MAX, PACKAGE_MEMORY_MB_DEFAULT, PACKAGE_MEMORY_MB_MAX, REVERSIBLE_SECONDS_MAX,
};
use serde::Deserialize;
use serde_json::Value;

/// The frozen fields, then those that came later and may be left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) name: String,
    risk_tier: Option<Value>,
    #[serde(default = "anything")]
    pub(super) input_schema: Value,
    #[serde(default = "anything")]
    pub(super) output_schema: Value,
    #[serde(default)]
    pub(super) permissions: Permissions,
    #[serde(default)]
    pub(super) verification: Verification,
    #[serde(default)]
    pub(super) rollback: Rollback,

    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    timeout_ms: Option<u64>,
    memory_mb: Option<u64>,
    #[serde(default)]
    profile: Isolation,
    /// Whom it asks over the network. Nothing said: nobody.
    #[serde(default)]
    pub(super) hosts: Vec<HostRule>,
    #[serde(default)]
    pub(super) idempotency_key_fields: Vec<String>,
    #[serde(default)]
    pub(super) repeatable: bool,
    reversible_seconds: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Permissions {
    #[serde(default)]
    pub(super) commands: Vec<String>,
    #[serde(default)]
    pub(super) filesystem: Filesystem,
}

/// What it sees of the workspace. What it may change of it, its tier says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Filesystem {
    #[default]
    None,
    Workspace,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Verification {
    #[serde(default)]
    pub(super) required: bool,
    #[serde(default)]
    pub(super) commands: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rollback {
    #[serde(default)]
    pub(super) required: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Isolation {
    #[default]
    Default,
    HighIsolation,
}

/// What a run may send over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Methods {
    /// GET and HEAD: they ask, and change nothing.
    Safe,
    Any,
}

fn anything() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Manifest {
    /// Reads one and holds it to the rules. `folder` is the action's own, `verifies` whether it has a script to verify with.
    pub(super) fn read(bytes: &[u8], folder: &str, verifies: bool) -> Result<Self, String> {
        let value = countersign_core::json::parse_strict(bytes).map_err(|error| format!("its `action.json` is not readable: {error}"))?;
        let manifest = Self::deserialize(value).map_err(|error| format!("its `action.json` is not valid: {error}"))?;
        manifest.check(folder, verifies)?;
        Ok(manifest)
    }

    fn check(&self, folder: &str, verifies: bool) -> Result<(), String> {
        if self.name != folder {
            return Err(format!("it calls itself `{}` and lies in a folder called `{folder}`", self.name));
        }
        if self.verification.required && !verifies && self.verification.commands.is_empty() {
            return Err("it requires verification and has neither a `verify` script nor `verification.commands`".to_owned());
        }
        if self.is_write() && self.tier() == Tier::R2 {
            if !self.verification.required {
                return Err("it writes at tier R2, and that needs `verification.required`".to_owned());
            }
            if !self.rollback.required {
                return Err(
                    "it writes at tier R2, and that needs `rollback.required`: what it changes is kept, and can be put back".to_owned()
                );
            }
        }
        if let Some(command) = self.verification.commands.iter().find(|command| !self.permissions.commands.contains(command)) {
            return Err(format!("it verifies with `{command}`, which is not among its `permissions.commands`"));
        }
        if self.hosts.len() > PACKAGE_HOSTS_MAX {
            return Err(format!("it names {} `hosts`; at most {PACKAGE_HOSTS_MAX} are allowed", self.hosts.len()));
        }
        if let Some(host) = self.hosts.iter().enumerate().find_map(|(at, host)| self.hosts[..at].contains(host).then_some(host)) {
            return Err(format!("its `hosts` name `{host}` twice"));
        }
        match self.timeout_ms {
            Some(0) => return Err("its `timeoutMs` is 0".to_owned()),
            Some(ms) if ms > CALL_TIMEOUT_MS => return Err(format!("its `timeoutMs` is {ms}; at most {CALL_TIMEOUT_MS} are allowed")),
            Some(_) | None => {}
        }
        match self.memory_mb {
            Some(mb) if !(16..=PACKAGE_MEMORY_MB_MAX).contains(&mb) => {
                Err(format!("its `memoryMb` is {mb}; between 16 and {PACKAGE_MEMORY_MB_MAX} are allowed"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A tier that is missing, or that nobody knows, is the worst.
    pub(super) fn tier(&self) -> Tier {
        self.risk_tier.as_ref().and_then(Value::as_str).and_then(Tier::parse).unwrap_or(Tier::R4)
    }

    /// Whether it changes files of the workspace.
    pub(super) fn is_write(&self) -> bool {
        self.permissions.filesystem == Filesystem::Workspace && self.tier() >= Tier::R2
    }

    /// Whether its effect is one it makes elsewhere, over the network. Its code then runs in `call`, not while the call is prepared.
    ///
    /// The record precedes the effect: before the intent is written nothing may leave that changes anything. Code that writes files runs
    /// before the intent, because what it wrote is announced with it; so it may fetch, and no more. What cannot be taken back is not for
    /// R2, which promises that it can; and a read does not change anything by its own word. That leaves R3 and R4 without files: they
    /// have nothing to prepare, a person has said yes, and all they do comes after the intent.
    pub(super) fn acts_elsewhere(&self) -> bool {
        !self.hosts.is_empty() && self.permissions.filesystem == Filesystem::None && self.tier() >= Tier::R3
    }

    /// What one of its scripts may send. Verifying looks and changes nothing; what was done elsewhere is not taken back, so neither does
    /// a `rollback`.
    pub(super) fn methods_of(&self, script: Script) -> Methods {
        match script {
            Script::Execute if self.acts_elsewhere() => Methods::Any,
            Script::Execute | Script::Verify | Script::Rollback => Methods::Safe,
        }
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        self.timeout_ms.unwrap_or(CALL_TIMEOUT_MS)
    }

    /// No longer than what undoes it is kept.
    pub(super) fn reversible_seconds(&self) -> u64 {
        self.reversible_seconds.unwrap_or(REVERSIBLE_SECONDS_MAX).min(REVERSIBLE_SECONDS_MAX)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_mb.unwrap_or(PACKAGE_MEMORY_MB_DEFAULT) * 1024 * 1024
    }

    /// What can do the most harm runs under the tightest profile, whatever its author asks for: the worst tier, and whoever has a way out.
    pub(super) fn profile(&self) -> Profile {
        if self.tier() == Tier::R4 || !self.hosts.is_empty() {
            return Profile::HighIsolation;
        }
        match self.profile {
            Isolation::Default => Profile::Default,
            Isolation::HighIsolation => Profile::HighIsolation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(change: impl FnOnce(&mut Value)) -> Result<Manifest, String> {
        let mut value = json!({
            "name": "tidy", "riskTier": "R2", "inputSchema": {}, "outputSchema": {},
            "permissions": { "commands": ["node --check src/file.js"], "filesystem": "workspace" },
            "verification": { "required": true, "commands": ["node --check src/file.js"] },
            "rollback": { "required": true }
        });
        change(&mut value);
        Manifest::read(value.to_string().as_bytes(), "tidy", false)
    }

    #[test]
    fn the_frozen_shape_reads_as_it_is() {
        let manifest = read(|_| {}).unwrap();
        assert_eq!((manifest.tier(), manifest.is_write()), (Tier::R2, true));
        assert_eq!((manifest.timeout_ms(), manifest.profile()), (CALL_TIMEOUT_MS, Profile::Default));
    }

    #[test]
    fn a_tier_that_is_missing_or_unknown_is_the_worst() {
        for tier in [Value::Null, json!("R9"), json!("r2"), json!(2)] {
            assert_eq!(read(|value| value["riskTier"] = tier.clone()).unwrap().tier(), Tier::R4, "{tier}");
        }
        let missing = read(|value| drop(value.as_object_mut().unwrap().remove("riskTier")));
        assert_eq!(missing.unwrap().tier(), Tier::R4);
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
    fn what_breaks_a_rule_is_refused_by_name() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 15] = [
            (|value| value["hosts"] = json!(["https://example.com/path"]), "`https://example.com/path` is not a host rule"),
            (|value| value["hosts"] = json!(["ftp://example.com"]), "the scheme must be `https` or `http`"),
            (|value| value["hosts"] = json!("example.com"), "expected a sequence"),
            (|value| value["hosts"] = json!(["example.com", "EXAMPLE.com:443"]), "name `example.com` twice"),
            (|value| value["hosts"] = json!((0..33).map(|n| format!("a{n}.example.com")).collect::<Vec<_>>()), "names 33 `hosts`"),
            (|value| value["permision"] = json!({}), "permision"),
            (|value| value["permissions"]["network"] = json!(true), "network"),
            (|value| value["permissions"]["filesystem"] = json!("root"), "root"),
            (|value| value["name"] = json!("other"), "calls itself `other`"),
            (|value| value["verification"]["required"] = json!(false), "verification.required"),
            (|value| value["rollback"]["required"] = json!(false), "rollback.required"),
            (|value| value["verification"]["commands"] = json!([]), "neither a `verify` script"),
            (|value| value["permissions"]["commands"] = json!([]), "not among its `permissions.commands`"),
            (|value| value["timeoutMs"] = json!(3_600_000), "timeoutMs"),
            (|value| value["memoryMb"] = json!(1_000_000), "memoryMb"),
        ];
        for (change, expected) in cases {
            let error = read(change).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let twice = br#"{"name":"tidy","riskTier":"R4","riskTier":"R0"}"#;
        assert!(Manifest::read(twice, "tidy", false).unwrap_err().contains("riskTier"));
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
            let manifest = read(|value| {
                value["riskTier"] = json!(tier);
                value["permissions"]["filesystem"] = json!(files);
                value["hosts"] = if hosts { json!(["api.example.com"]) } else { json!([]) };
            })
            .unwrap();
            assert_eq!(manifest.acts_elsewhere(), elsewhere, "{tier} {files} {hosts}");
            let execute = if elsewhere { Methods::Any } else { Methods::Safe };
            let methods = [Script::Execute, Script::Verify, Script::Rollback].map(|script| manifest.methods_of(script));
            assert_eq!(methods, [execute, Methods::Safe, Methods::Safe], "{tier} {files} {hosts}");
        }
    }
}
