//! The home of each org on this server: its workspaces, the builtin sources that work in them, and its packages. Orgs share none of it. The
//! first org's home is the data folder itself; another org's home is below `orgs/` and is created when it is first needed.

use crate::jail::SandboxJail;
use countersign_core::checks::Commands;
use countersign_core::effect::{Check, Scope};
use countersign_core::fault::Faults;
use countersign_core::jail::Jail;
use countersign_core::source::{self, BUILTIN_SOURCES, CallContext, OrgSources, Past, Source, SourceRegistry};
use countersign_core::{ActionId, Future, OrgId, SourceId};
use host::config::Config;
use host::data_dir::HomeDir;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use sources::builtin;
use sources::command::CommandRunner;
use sources::package::{Packages, PackagesConfig};
use sources::workspace::Places;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that is needed to open a home.
pub struct Ground {
    pub config: Config,
    /// The data folder, which contains the homes.
    pub data: PathBuf,
    pub first: OrgId,
    pub builtin: builtin::Parts,
    pub jail: Arc<SandboxJail>,
    pub faults: Faults,
}

/// The home of every org.
pub struct Homes {
    ground: Ground,
    /// Builtin sources that keep no state of an org.
    shared: Vec<Arc<dyn Source>>,
    first: Arc<Home>,
    opened: RwLock<HashMap<OrgId, Arc<Home>>>,
}

/// The home of one org.
pub struct Home {
    pub places: Arc<Places>,
    pub packages: Arc<Packages>,
    commands: Arc<CommandRunner>,
    builtin: Vec<Arc<dyn Source>>,
    /// The package sources as last listed, and the same list with the builtin sources added.
    listed: Mutex<(OrgSources, OrgSources)>,
}

impl Homes {
    /// Opens the home of the first org.
    pub fn open(ground: Ground) -> Result<Self, sources::Error> {
        let mut shared = builtin::open_once(&ground.builtin)?;
        shared.push(Arc::new(runs::Builtin::new().map_err(sources::Error::Definition)?));
        let first = Arc::new(Home::open(&ground, &shared, &HomeDir::first(&ground.data))?);
        let opened = RwLock::new(HashMap::from([(ground.first.clone(), Arc::clone(&first))]));
        Ok(Self { ground, shared, first, opened })
    }

    pub fn of(&self, org: &OrgId) -> Result<Arc<Home>, sources::Error> {
        if let Some(home) = self.opened.read().get(org) {
            return Ok(Arc::clone(home));
        }
        let mut opened = self.opened.write();
        if let Some(home) = opened.get(org) {
            return Ok(Arc::clone(home));
        }
        let home = Arc::new(Home::open(&self.ground, &self.shared, &HomeDir::of(&self.ground.data, org))?);
        opened.insert(org.clone(), Arc::clone(&home));
        Ok(home)
    }

    /// The workspaces that exist on this server, of these orgs.
    pub fn places(&self, orgs: &[OrgId]) -> Vec<Arc<Places>> {
        let exists = |org: &&OrgId| **org == self.ground.first || HomeDir::of(&self.ground.data, org).workspace().exists();
        orgs.iter().filter(exists).filter_map(|org| self.of(org).ok()).map(|home| Arc::clone(&home.places)).collect()
    }
}

impl Home {
    fn open(ground: &Ground, shared: &[Arc<dyn Source>], folders: &HomeDir) -> Result<Self, sources::Error> {
        let config = &ground.config;
        let places = Arc::new(Places::open(folders.workspaces(), Arc::clone(&ground.builtin.random), &ground.faults)?);
        let mut builtin = builtin::open_on(&places, &ground.builtin)?;
        builtin.extend_from_slice(shared);
        let may_run_code = config.allow_plugin_code_execution;
        let (allowed, confines) = (config.command_allowlist.clone(), Arc::clone(&ground.jail) as Arc<dyn Jail>);
        let commands = Arc::new(CommandRunner::new(allowed, Arc::clone(&confines), Arc::clone(&places), may_run_code));
        let packages = Packages::open(PackagesConfig {
            folder: folders.packages(),
            places: Arc::clone(&places),
            jail: confines,
            commands: Arc::clone(&commands) as Arc<dyn Commands>,
            may_run_code,
            allowed_hosts: config.package_allowed_hosts.clone(),
            allowed_networks: config.package_allowed_networks.clone(),
            // Also those of ours that this server does not offer: no package stands in for one.
            taken: BUILTIN_SOURCES.iter().filter_map(|name| SourceId::parse(name).ok()).collect(),
            check_schema: pipeline::check_schema,
        })?;
        Ok(Self { places, packages: Arc::new(packages), commands, builtin, listed: Mutex::default() })
    }

    /// The sources of the packages and the builtin ones. Returns the same `Arc` as long as the packages do not change.
    fn with_builtin(&self, packaged: OrgSources) -> OrgSources {
        let mut listed = self.listed.lock();
        if listed.1.is_empty() || !Arc::ptr_eq(&listed.0, &packaged) {
            let all = self.builtin.iter().chain(packaged.iter()).map(Arc::clone).collect();
            *listed = (packaged, Arc::new(all));
        }
        Arc::clone(&listed.1)
    }
}

impl SourceRegistry for Homes {
    fn sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, OrgSources> {
        Box::pin(async move {
            match self.of(org) {
                Ok(home) => home.with_builtin(home.packages.sources(org).await),
                Err(error) => {
                    tracing::error!(%error, %org, "the org's workspace cannot be opened: it has no sources");
                    OrgSources::default()
                }
            }
        })
    }

    fn past<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Option<Past>> {
        Box::pin(async move { self.of(org).ok()?.packages.past(org, action, evidence).await })
    }
}

impl Commands for Homes {
    /// The operator's allowlist is the same for every org.
    fn refusal(&self, command: &str, scope: &Scope) -> Option<String> {
        self.first.commands.refusal(command, scope)
    }

    fn run<'a>(&'a self, context: &'a CallContext, whose: &'a str, command: &'a str) -> Future<'a, Result<Check, source::Error>> {
        Box::pin(async move {
            let unreachable = |error: sources::Error| source::Error::NoTurn { source_id: whose.to_owned(), message: error.to_string() };
            self.of(&context.org).map_err(unreachable)?.commands.run(context, whose, command).await
        })
    }
}
