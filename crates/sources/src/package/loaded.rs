//! A package as it was read from disk: its actions, made ready.

use super::folder::{self, PackageFile, PackageFiles, Stamp};
use super::manifest::{Filesystem, Manifest};
use super::run::Script;
use crate::program::is_program;
use countersign_core::action::{Effect, Preview, Repeatability, Reversibility};
use countersign_core::{Action, ActionId, Digest, Tier};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const READ_BACK: &str = "read_back";
pub(super) const VERIFY_SCRIPT: &str = "verify";

/// Every action of a package.
pub(super) struct Loaded {
    pub(super) actions: Vec<Arc<LoadedAction>>,
    pub(super) stamp: Stamp,
}

pub(super) struct LoadedAction {
    pub(super) action: Arc<Action>,
    pub(super) manifest: Manifest,
    /// Below the action's own folder.
    pub(super) files: PackageFiles,
    pub(super) folder: PathBuf,
    pub(super) digest: Digest,
}

impl Loaded {
    pub(super) fn read(name: &str, folder: &Path) -> Result<Self, String> {
        let (files, stamp) = folder::read(folder)?;
        Ok(Self { actions: actions_of(name, folder, &files)?, stamp })
    }
}

/// The actions these files make, each held to the rules; the reason where one is not.
pub(super) fn actions_of(package: &str, folder: &Path, files: &PackageFiles) -> Result<Vec<Arc<LoadedAction>>, String> {
    let mut actions = Vec::new();
    for path in files.keys() {
        folder::check_path(path)?;
        let Some(name) =
            path.strip_prefix("actions/").and_then(|rest| rest.strip_suffix("/action.json")).filter(|name| !name.contains('/'))
        else {
            continue;
        };
        let action = LoadedAction::new(package, name, folder, files).map_err(|why| format!("action `{name}`: {why}"))?;
        actions.push(Arc::new(action));
    }
    if actions.is_empty() { Err("it has no `actions/<name>/action.json`".to_owned()) } else { Ok(actions) }
}

impl LoadedAction {
    fn new(package: &str, name: &str, folder: &Path, files: &PackageFiles) -> Result<Self, String> {
        let prefix = format!("actions/{name}/");
        let own: PackageFiles = folder::below(files, &prefix).map(|(path, file)| (path.to_owned(), file.clone())).collect();
        let manifest = own.get("action.json").ok_or("it has no `action.json`")?;
        let verifies = script_of(&own, Script::Verify)?.is_some();
        let manifest = Manifest::read(&manifest.bytes, name, verifies)?;
        if script_of(&own, Script::Execute)?.is_none() {
            return Err("it has no `execute.js`, `execute.py` or program `execute`".to_owned());
        }
        script_of(&own, Script::Rollback)?;
        let id = ActionId::parse(&format!("{package}.{name}")).map_err(|error| error.to_string())?;
        let digest = folder::digest(files, &prefix);
        let action = Arc::new(define(id, &manifest, verifies, digest));
        Ok(Self { action, manifest, files: own, folder: folder.join(&prefix), digest })
    }

    pub(super) fn script(&self, script: Script) -> Option<(&str, &PackageFile)> {
        script_of(&self.files, script).ok().flatten()
    }

    pub(super) fn sha256_of(&self, file: &PackageFile) -> Digest {
        Digest::new(Sha256::digest(&file.bytes).into())
    }
}

/// The one file that is the script. Two would leave open which runs.
fn script_of(files: &PackageFiles, script: Script) -> Result<Option<(&str, &PackageFile)>, String> {
    let name = script.name();
    let mut found = files.iter().filter(|(path, _)| {
        let rest = path.strip_prefix(name);
        matches!(rest, Some("" | ".js" | ".py"))
    });
    let first = found.next();
    if found.next().is_some() {
        return Err(format!("it has more than one `{name}`"));
    }
    match first {
        Some((path, file)) if path == name && !(file.is_executable && is_program(&file.bytes)) => {
            Err(format!("its `{name}` is not an executable program; a script is called `{name}.js` or `{name}.py`"))
        }
        first => Ok(first.map(|(path, file)| (path.as_str(), file))),
    }
}

fn define(id: ActionId, manifest: &Manifest, verifies: bool, digest: Digest) -> Action {
    let tier = manifest.tier();
    let (reads, writes) = (manifest.permissions.filesystem == Filesystem::Workspace, manifest.is_write());
    let effects = [(reads, Effect::FilesystemRead), (writes, Effect::FilesystemWrite), (!manifest.hosts.is_empty(), Effect::NetworkCall)];
    let (asks, acts_elsewhere) = (!manifest.hosts.is_empty(), manifest.acts_elsewhere());
    let requires = [(reads, "files.read"), (writes, "files.write"), (asks, "http.get"), (acts_elsewhere, "http.request")];
    let checks = [(writes, READ_BACK), (verifies, VERIFY_SCRIPT)];
    let texts = |pairs: &[(bool, &str)]| pairs.iter().filter(|(holds, _)| *holds).map(|(_, text)| (*text).to_owned()).collect::<Vec<_>>();
    let mut checked = texts(&checks);
    checked.extend(manifest.verification.commands.iter().cloned());
    Action {
        version: "1.0.0".to_owned(),
        title: manifest.title.clone().unwrap_or_else(|| manifest.name.replace(['_', '-'], " ")),
        description: manifest.description.clone().unwrap_or_else(|| format!("An action of the package `{}`.", id.source())),
        tier,
        params_schema: object(&manifest.input_schema),
        result_schema: manifest.output_schema.clone(),
        requires: texts(&requires),
        effects: effects.into_iter().filter(|(holds, _)| *holds).map(|(_, effect)| effect).collect(),
        timeout_ms: manifest.timeout_ms(),
        idempotency_key_fields: manifest.idempotency_key_fields.clone(),
        reversibility: match (acts_elsewhere, writes) {
            (true, _) => Reversibility::NotReversible,
            (false, true) => Reversibility::Reversible,
            (false, false) => Reversibility::NoEffect,
        },
        reversible_seconds: (writes && !acts_elsewhere).then(|| manifest.reversible_seconds()),
        checks: checked,
        repeatability: if manifest.repeatable { Repeatability::Repeatable } else { Repeatability::NotRepeatable },
        // Its code runs in a dry run too, and that of R3 and R4 runs for nobody but the person who said so. Nor do the params of a
        // rehearsal that nobody was asked about go to a host.
        preview: if writes && tier == Tier::R2 && !asks { Preview::Supported } else { Preview::Unsupported },
        preview_reads: reads.then(|| ActionId::parse("files.read_text").ok()).flatten(),
        exempt_from_redaction: Vec::new(),
        profile: manifest.profile(),
        package_sha256: Some(digest),
        hosts: manifest.hosts.iter().map(ToString::to_string).collect(),
        id,
    }
}

/// Params are an object, whatever else the schema says.
fn object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(keywords) = schema.as_object_mut() {
        keywords.entry("type").or_insert_with(|| json!("object"));
    }
    schema
}
