//! A package as read from disk, with its actions ready to be called.

use super::folder::{self, PackageFile, PackageFiles, Stamp};
use super::manifest::{Around, Filesystem, Held, Manifest, of_object};
use super::mistake::{Mistake, in_short};
use super::script::Script;
use super::server_manifest::{self, LoadedServer};
use crate::program::is_program;
use countersign_core::action::{Effect, Preview, Repeatability, Reversibility};
use countersign_core::{Action, ActionId, Digest, Tier};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const READ_BACK: &str = "read_back";
pub(super) const VERIFY_SCRIPT: &str = "verify";

/// Every action of a package, and its MCP server if it has one.
pub(super) struct Loaded {
    pub(super) actions: Vec<Arc<LoadedAction>>,
    pub(super) server: Option<Arc<LoadedServer>>,
    pub(super) stamp: Stamp,
    pub(super) revision: u64,
}

pub(super) struct LoadedAction {
    pub(super) action: Arc<Action>,
    pub(super) manifest: Manifest,
    /// Relative to the action's own folder.
    pub(super) files: PackageFiles,
    pub(super) folder: PathBuf,
    pub(super) digest: Digest,
}

impl Loaded {
    pub(super) fn read(name: &str, folder: &Path, revision: u64) -> Result<Self, String> {
        let (files, stamp) = folder::read(folder).map_err(|mistakes| in_short(&mistakes))?;
        let mut mistakes = Vec::new();
        let actions = actions_of(name, folder, &files, Held::Installed, &mut mistakes);
        let server = LoadedServer::read(name, folder, &files, &mut mistakes).map(Arc::new);
        if mistakes.is_empty() { Ok(Self { actions, server, stamp, revision }) } else { Err(in_short(&mistakes)) }
    }
}

/// The actions that these files make. Mistakes in them are added to `mistakes`.
pub(super) fn actions_of(
    package: &str,
    folder: &Path,
    files: &PackageFiles,
    held: Held,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Arc<LoadedAction>> {
    folder::check_paths(files, mistakes);
    let named = |path: &'_ str| Some(path.strip_prefix("actions/")?.split_once('/')?.0.to_owned());
    let names: BTreeSet<_> = files.keys().filter_map(|path| named(path)).collect();
    let has_manifest = |name: &&String| files.contains_key(&format!("actions/{name}/action.json"));
    if !names.iter().any(|name| has_manifest(&name)) && !files.contains_key(server_manifest::FILE) {
        let hint = "write one, or begin from the example that `countersign package new` writes";
        mistakes.push(Mistake::new("", format!("it has neither an `actions/<name>/action.json` nor an `{}`", server_manifest::FILE), hint));
    }
    if matches!(held, Held::New { .. }) {
        mistakes.extend(names.iter().filter(|name| !has_manifest(name)).map(|name| no_manifest(name)));
    }
    let read = |name: &String| LoadedAction::read(package, name, folder, files, held, mistakes).map(Arc::new);
    names.iter().filter(has_manifest).filter_map(read).collect()
}

/// The mistake for a folder under `actions/` that has no manifest.
pub(super) fn no_manifest(name: &str) -> Mistake {
    let hint = "write its `action.json` and `execute.js`, or remove the folder";
    Mistake::new(format!("actions/{name}"), "it has no `action.json`, so no action comes of it", hint)
}

impl LoadedAction {
    fn read(package: &str, name: &str, folder: &Path, files: &PackageFiles, held: Held, mistakes: &mut Vec<Mistake>) -> Option<Self> {
        let (prefix, before) = (format!("actions/{name}/"), mistakes.len());
        let own: PackageFiles = folder::below(files, &prefix).map(|(path, file)| (path.to_owned(), file.clone())).collect();
        let scripts = [Script::Execute, Script::Verify, Script::Rollback].map(|script| script_of(&own, script));
        mistakes.extend(scripts.iter().filter_map(|script| script.as_ref().err()).map(|mistake| mistake.below(&prefix)));
        let [execute, verify, _] = &scripts;
        if let Ok(None) = execute {
            let hint = "write one: it finds JSON on stdin, and prints JSON";
            mistakes.push(Mistake::new(prefix.trim_end_matches('/'), "it has no `execute.js`, `execute.py` or program `execute`", hint));
        }
        // A `verify` script that exists but is invalid counts here: its own mistake is reported, not a missing script besides.
        let verifies = !matches!(verify, Ok(None));
        let manifest = Manifest::read(&own.get("action.json")?.bytes, Around { folder: name, verifies, held }, mistakes);
        let id = ActionId::parse(&format!("{package}.{name}"));
        if id.is_err() {
            let hint = "letters, digits, `_`, `-` and `.`, 128 at most";
            mistakes.push(Mistake::new(prefix.trim_end_matches('/'), "that is not a name an action may have", hint));
        }
        let (manifest, id) = (manifest?, id.ok().filter(|_| mistakes.len() == before)?);
        let digest = folder::digest(files, &prefix);
        let action = Arc::new(define(id, &manifest, verifies, digest));
        Some(Self { action, manifest, files: own, folder: folder.join(&prefix), digest })
    }

    pub(super) fn script(&self, script: Script) -> Option<(&str, &PackageFile)> {
        script_of(&self.files, script).ok().flatten()
    }

    /// The file name of the script, for messages to its author.
    pub(super) fn file_of(&self, script: Script) -> &str {
        self.script(script).map_or(script.name(), |(file, _)| file)
    }
}

/// The file that holds the script. Two candidates are a mistake: it would be unclear which one runs.
pub(super) fn script_of(files: &PackageFiles, script: Script) -> Result<Option<(&str, &PackageFile)>, Mistake> {
    let name = script.name();
    let mut found = files.iter().filter(|(path, _)| {
        let rest = path.strip_prefix(name);
        matches!(rest, Some("" | ".js" | ".py"))
    });
    let first = found.next();
    if found.next().is_some() {
        return Err(Mistake::new("", format!("it has more than one `{name}`"), "keep the one that is to run"));
    }
    match first {
        Some((path, file)) if path == name && !(file.is_executable && is_program(&file.bytes)) => {
            let message = format!("its `{name}` is not an executable program");
            Err(Mistake::new(name, message, format!("call a script `{name}.js` or `{name}.py`; make a program executable")))
        }
        first => Ok(first.map(|(path, file)| (path.as_str(), file))),
    }
}

fn add_missing<T: Clone + PartialEq>(known: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !known.contains(one) {
            known.push(one.clone());
        }
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
    // What the author declares is added to what follows from the permissions, and takes nothing away.
    let mut effects: Vec<_> = effects.into_iter().filter(|(holds, _)| *holds).map(|(_, effect)| effect).collect();
    add_missing(&mut effects, &manifest.effects);
    let mut requires = texts(&requires);
    add_missing(&mut requires, &manifest.requires);
    Action {
        version: manifest.version().to_owned(),
        title: manifest.title.clone().unwrap_or_else(|| manifest.name.replace(['_', '-'], " ")),
        description: manifest.description.clone().unwrap_or_else(|| format!("An action of the package `{}`.", id.source())),
        tier,
        params_schema: of_object(&manifest.input_schema),
        result_schema: manifest.output_schema.clone(),
        requires,
        effects,
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
        // A dry run runs the action's code too. At R3 and R4 code runs only after a person's approval, so there is no dry run. An action
        // with network access has none either: its params would go to a host without anyone having been asked.
        preview: if writes && tier == Tier::R2 && !asks { Preview::Supported } else { Preview::Unsupported },
        preview_reads: reads.then(|| ActionId::parse("files.read_text").ok()).flatten(),
        exempt_from_redaction: Vec::new(),
        profile: manifest.profile(),
        package_sha256: Some(digest),
        upstream_sha256: None,
        server_sha256: None,
        guide_sha256: None,
        hosts: manifest.hosts.iter().map(ToString::to_string).collect(),
        produces_artifacts: manifest.produces_artifacts.clone(),
        id,
    }
}
