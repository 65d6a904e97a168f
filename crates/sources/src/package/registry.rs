//! The installed packages, one folder each. A package is installed, replaced and removed as a whole.

use super::folder::{self, PackageFiles};
use super::kept::{self, CodeChange, Kept, Origin};
use super::loaded::{LoadedAction, actions_of, no_manifest};
use super::manifest::Held;
use super::mistake::Mistake;
use super::past;
use super::ports::PackagePorts;
use super::run::Runner;
use super::server::PackageServer;
use super::server_manifest::ServerManifest;
use super::source::{PackageSource, invalid};
use crate::egress::{NamedIn, Network};
use crate::limits::{PACKAGE_BYTES_MAX, PACKAGE_FILES_MAX, PACKAGES_MAX};
use crate::program::Programs;
use crate::web::HostRule;
use crate::words::refused;
use crate::workspace::Places;
use crate::workspace::open::folder_error;
use crate::workspace::root::make_folder;
use crate::workspace::workers::Workers;
use countersign_core::checks::Commands;
use countersign_core::jail::Jail;
use countersign_core::source::{Error, OrgSources, Past, Source, SourceRegistry};
use countersign_core::{Action, ActionId, Digest, Future, OrgId, SourceId};
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use rustix::fs::{CWD, RenameFlags};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Threads that hash and rename files. The scripts themselves run in the jail, not on these threads.
const THREADS: usize = 4;

/// Everything the packages need from the server.
pub struct PackagesConfig {
    pub folder: PathBuf,
    pub places: Arc<Places>,
    pub jail: Arc<dyn Jail>,
    pub commands: Arc<dyn Commands>,
    /// If false, packages are listed but none of their code runs.
    pub may_run_code: bool,
    /// The hosts that packages may send requests to, if their manifests name them too. Empty: no network.
    pub allowed_hosts: Vec<HostRule>,
    /// Networks that are not public and may be reached all the same.
    pub allowed_networks: Vec<IpNet>,
    /// Names of other sources, which no package may take.
    pub taken: Vec<SourceId>,
    pub check_schema: CheckSchema,
}

/// Returns why a schema does not compile.
pub type CheckSchema = fn(&Value) -> Result<(), String>;

/// All installed packages.
pub struct Packages {
    folder: PathBuf,
    taken: Vec<SourceId>,
    check_schema: CheckSchema,
    ports: Arc<PackagePorts>,
    sources: RwLock<BTreeMap<SourceId, Arc<PackageSource>>>,
    /// The same sources in the form that the catalogue asks for; rebuilt with every change.
    registered: RwLock<OrgSources>,
    /// Held while a package is installed or removed: one change at a time.
    changing: Mutex<()>,
}

/// A package as it is now.
pub struct Installed {
    pub name: SourceId,
    /// The package's actions, or why it cannot be used.
    pub actions: Result<Vec<Arc<Action>>, String>,
}

/// What an installed package is made of.
pub struct Details {
    pub files: PackageFiles,
    /// Covers all files.
    pub sha256: Digest,
    /// The package's folder on the server.
    pub folder: PathBuf,
    pub origin: Option<Origin>,
}

/// Why a package could not be installed or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("package `{name}` is refused: {}", counted(mistakes))]
    Invalid { name: String, mistakes: Vec<Mistake> },
    #[error("package `{name}` could not be written: {why}; nothing was changed")]
    Disk { name: String, why: String },
}

/// One mistake is quoted. Several are only counted, since the caller lists them beside this message.
fn counted(mistakes: &[Mistake]) -> String {
    match mistakes {
        [only] => only.to_string(),
        several => format!("{} things are wrong with it", several.len()),
    }
}

impl Packages {
    /// Opens the folder, removes what an interrupted installation or removal left, and reads the packages.
    pub fn open(config: PackagesConfig) -> Result<Self, crate::Error> {
        let PackagesConfig { folder, places, jail, commands, may_run_code, allowed_hosts, allowed_networks, taken, check_schema } = config;
        make_folder(&folder)?;
        if may_run_code {
            places.shared().show_to_code()?;
        }
        let workers = Workers::start("packages", "packages", THREADS)?;
        let runner = Runner { jail, programs: Programs::default(), places: Arc::clone(&places) };
        let named_in = NamedIn { hosts: "package_allowed_hosts", networks: "package_allowed_networks" };
        let network = Arc::new(Network::new(allowed_hosts, allowed_networks, named_in)?);
        let kept = Kept::new(folder.join(kept::FOLDER));
        let ports = Arc::new(PackagePorts { places, runner, commands, workers, may_run_code, network, kept });
        let packages = Self {
            folder,
            taken,
            check_schema,
            ports,
            sources: RwLock::default(),
            registered: RwLock::default(),
            changing: Mutex::default(),
        };
        packages.read_folder()?;
        Ok(packages)
    }

    fn read_folder(&self) -> Result<(), crate::Error> {
        let failed = |error: std::io::Error| folder_error(&self.folder, &error);
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == kept::FOLDER {
                continue;
            }
            if name.starts_with('.') {
                // Left by an installation or a removal that did not finish.
                let _ = fs::remove_dir_all(entry.path());
                continue;
            }
            match SourceId::parse(&name) {
                Ok(id) if !self.taken.contains(&id) => self.take(id),
                Ok(_) | Err(_) => tracing::warn!(name, "a folder among the packages has a name no package may have, and is left out"),
            }
        }
        Ok(())
    }

    fn take(&self, id: SourceId) {
        let source = PackageSource::open(id.clone(), self.folder.join(id.as_str()), Arc::clone(&self.ports));
        self.change(|sources| sources.insert(id, Arc::new(source)));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<SourceId, Arc<PackageSource>>) -> Option<Arc<PackageSource>>) {
        let mut sources = self.sources.write();
        change(&mut sources);
        *self.registered.write() = Arc::new(sources.values().map(|source| Arc::clone(source) as Arc<dyn Source>).collect());
    }

    /// The actions that these files would make, or everything that is wrong with them. Changes nothing.
    pub fn check(&self, name: &str, files: &PackageFiles) -> Result<Vec<Arc<Action>>, Refused> {
        let taken: Vec<_> = self.taken.iter().map(SourceId::as_str).collect();
        Self::check_files(name, files, &taken, self.check_schema)
    }

    /// Like `check`, without a registry: the caller passes the names that are taken.
    pub fn check_files(name: &str, files: &PackageFiles, taken: &[&str], check_schema: CheckSchema) -> Result<Vec<Arc<Action>>, Refused> {
        let mut mistakes: Vec<_> = Self::check_name(name, taken).err().into_iter().collect();
        let bytes: usize = files.values().map(|file| file.bytes.len()).sum();
        let beyond = [(files.len() > PACKAGE_FILES_MAX, folder::too_many()), (bytes > PACKAGE_BYTES_MAX, folder::too_large())];
        let beyond: Vec<_> = beyond.into_iter().filter_map(|(is_beyond, mistake)| is_beyond.then_some(mistake)).collect();
        let mut actions = Vec::new();
        if beyond.is_empty() {
            // Even if the name is invalid, the actions can still be checked, under a stand-in name.
            let id = SourceId::parse(name).map_or("package", |_| name);
            actions = actions_of(id, Path::new(id), files, Held::New { check_schema }, &mut mistakes);
            ServerManifest::read(files, &mut mistakes);
        }
        // The actions of a package that exceeds a limit are not checked.
        mistakes.extend(beyond);
        mistakes.sort_by(|one, other| one.file.cmp(&other.file));
        if !mistakes.is_empty() {
            return Err(Refused::Invalid { name: crate::words::shown(name), mistakes });
        }
        Ok(actions.iter().map(|action: &Arc<LoadedAction>| Arc::clone(&action.action)).collect())
    }

    /// Checks that a package may have this name.
    pub fn check_name(name: &str, taken: &[&str]) -> Result<(), Mistake> {
        let refused = |message: &str, hint: &str| Err(Mistake::new("", format!("`{}` {message}", crate::words::shown(name)), hint));
        if SourceId::parse(name).is_err() {
            return refused("is not a package's name", "a lower-case letter, then lower-case letters, digits, `_` or `-`, 32 at most");
        }
        if taken.contains(&name) {
            return refused("is the name of a source of ours, and no package may stand in for it", "give it another name");
        }
        Ok(())
    }

    /// Installs a package, or replaces an installed one. A crash leaves either the old or the new version, never a mixture.
    pub fn install(&self, name: &str, files: &PackageFiles) -> Result<Vec<Arc<Action>>, Refused> {
        let actions = self.check(name, files)?;
        let invalid = |mistake| Refused::Invalid { name: crate::words::shown(name), mistakes: vec![mistake] };
        let id = SourceId::parse(name).map_err(|error| invalid(Mistake::new("", error.to_string(), "give it another name")))?;
        let _alone = self.changing.lock();
        if !self.sources.read().contains_key(&id) && self.sources.read().len() >= PACKAGES_MAX {
            let message = format!("there are {PACKAGES_MAX} packages already");
            return Err(invalid(Mistake::new("", message, "remove one with `countersign package remove`")));
        }
        self.put(name, files).map_err(|error| Refused::Disk { name: name.to_owned(), why: error.to_string() })?;
        self.take(id);
        Ok(actions)
    }

    fn put(&self, name: &str, files: &PackageFiles) -> std::io::Result<()> {
        let (new, target) = (self.folder.join(format!(".new-{name}")), self.folder.join(name));
        let _leftover = fs::remove_dir_all(&new);
        folder::write(&new, files)?;
        if target.exists() {
            rustix::fs::renameat_with(CWD, &new, CWD, &target, RenameFlags::EXCHANGE)?;
            clear(&new);
        } else {
            fs::rename(&new, &target)?;
        }
        fs::File::open(&self.folder)?.sync_all()
    }

    /// Removes a package. Returns whether it was installed.
    pub fn remove(&self, name: &str) -> Result<bool, Refused> {
        let Ok(id) = SourceId::parse(name) else {
            return Ok(false);
        };
        let _alone = self.changing.lock();
        if !self.sources.read().contains_key(&id) {
            return Ok(false);
        }
        let gone = self.folder.join(format!(".gone-{name}"));
        let _leftover = fs::remove_dir_all(&gone);
        match fs::rename(self.folder.join(name), &gone) {
            Ok(()) => clear(&gone),
            // Somebody else removed the folder, which is the end the caller wanted.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Refused::Disk { name: name.to_owned(), why: error.to_string() }),
        }
        // Only now: a package that could not be removed must stay in the list.
        self.change(|sources| sources.remove(&id));
        self.ports.kept.forget_origin(name);
        Ok(true)
    }

    pub fn may_run_code(&self) -> bool {
        self.ports.may_run_code
    }

    pub fn list(&self) -> Vec<Installed> {
        let sources = self.sources.read().clone();
        let listed = sources.into_iter().map(|(name, source)| {
            let actions = source.current().map(|loaded| loaded.actions.iter().map(|action| Arc::clone(&action.action)).collect());
            Installed { name, actions }
        });
        listed.collect()
    }

    /// The files of an installed package; `None` if there is no such package or its files cannot be read.
    pub fn details(&self, name: &str) -> Option<Details> {
        let id = SourceId::parse(name).ok()?;
        self.sources.read().get(&id)?;
        let folder = self.folder.join(name);
        let files = Self::read(&folder).ok()?;
        Some(Details { sha256: Self::digest(&files), files, folder, origin: self.ports.kept.origin(name) })
    }

    /// Notes who installed a package. This is only shown; no decision depends on it.
    pub fn note_origin(&self, name: &str, origin: &Origin) {
        if let Err(error) = self.ports.kept.note_origin(name, origin) {
            tracing::warn!(%error, name, "who installed a package could not be noted");
        }
    }

    /// The changes of an action's code since it had this digest; `None` if no copy of that code was kept.
    pub fn code_changes(&self, action: &ActionId, since: Digest) -> Option<Vec<CodeChange>> {
        let before = self.ports.kept.find(since)?;
        let source = SourceId::parse(action.source()).ok().and_then(|id| self.sources.read().get(&id).cloned())?;
        let loaded = source.current().ok()?;
        let now = loaded.actions.iter().find(|loaded| loaded.action.id == *action)?;
        Some(kept::changes(&before, &now.files))
    }

    /// For each action of a package that cannot run on this server now, the reason.
    pub async fn cannot_run(&self, name: &SourceId) -> BTreeMap<ActionId, String> {
        let source = self.sources.read().get(name).cloned();
        match source {
            Some(source) => source.cannot_run().await,
            None => BTreeMap::new(),
        }
    }

    /// The MCP server that these files would make, if they are without mistakes.
    pub fn server_of(files: &PackageFiles) -> Option<ServerManifest> {
        ServerManifest::read(files, &mut Vec::new())
    }

    /// The MCP server of an installed package, as it is on disk now.
    pub fn server(&self, name: &SourceId) -> Result<PackageServer, Error> {
        let source = self.sources.read().get(name).cloned();
        let source = source.ok_or_else(|| refused("package_missing", format!("there is no package `{name}` on this server")))?;
        let loaded = source.current().map_err(|why| invalid(name, &why))?.server.as_ref().map(Arc::clone);
        let loaded = loaded.ok_or_else(|| invalid(name, "it has no `mcp.json`, so it is no MCP server"))?;
        Ok(PackageServer { loaded, ports: Arc::clone(&self.ports) })
    }

    /// The changes of a package since it was an MCP server with this digest; `None` if no copy of it was kept.
    pub fn server_changes(&self, name: &SourceId, since: Digest) -> Option<Vec<CodeChange>> {
        let before = self.ports.kept.find(since)?;
        Some(kept::changes(&before, &self.server(name).ok()?.loaded.files))
    }

    /// The digest over all files of a package.
    pub fn digest(files: &PackageFiles) -> Digest {
        folder::digest(files, "")
    }

    /// Reads the files of a folder on disk, as they would be installed.
    pub fn read(folder: &Path) -> Result<PackageFiles, Vec<Mistake>> {
        folder::read(folder).map(|(files, _)| files)
    }

    /// Like `read` for a folder that may contain mistakes: returns every readable file, and the mistakes that only the folder shows, such
    /// as an empty folder under `actions/`.
    pub fn look_at(folder: &Path) -> (PackageFiles, Vec<Mistake>) {
        let mut mistakes = Vec::new();
        let files = folder::read_what_reads(folder, &mut mistakes);
        mistakes.extend(folder::empty_actions(folder, &files).iter().map(|name| no_manifest(name)));
        (files, mistakes)
    }
}

/// Removes a folder that is no longer a package. If that fails, the next start removes it.
fn clear(leftover: &Path) {
    if let Err(error) = fs::remove_dir_all(leftover) {
        tracing::warn!(%error, folder = %leftover.display(), "what a package left could not be taken away yet");
    }
}

/// One org's packages. A server with several orgs has one `Packages` for each.
impl SourceRegistry for Packages {
    fn sources<'a>(&'a self, _org: &'a OrgId) -> Future<'a, OrgSources> {
        Box::pin(std::future::ready(Arc::clone(&self.registered.read())))
    }

    fn past<'a>(&'a self, _org: &'a OrgId, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Option<Past>> {
        let (ports, action, evidence) = (Arc::clone(&self.ports), action.clone(), evidence.clone());
        let found = self.ports.workers.run(move || past::find(&ports, &action, &evidence));
        Box::pin(async move { found.await.ok().flatten() })
    }
}
