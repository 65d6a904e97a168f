//! The sources that admins added, for each org: MCP servers elsewhere, and programs in the jail. A source lives, with its connection, until
//! an admin changes, removes or stops it, or another version of its package is installed, and the calls that run in it have ended. One that
//! cannot be set up any more stays there and says why.

use crate::allowed::{AllowLists, Leave, Lists};
use crate::homes::Homes;
use crate::limits::SOURCES_CLOSE_SECONDS;
use crate::source_events;
use countersign_core::ports::connections::Connection;
use countersign_core::ports::sources::{AddedSource, McpServer, SourceSettings};
use countersign_core::ports::{AddedSources, Rules};
use countersign_core::resident::Residents;
use countersign_core::source::{Error, OrgSources, Source, SourceRegistry};
use countersign_core::switch::SwitchScope;
use countersign_core::{Future, OrgId, SourceId, SpaceId};
use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use pipeline::Catalogue;
use sources::connection::Connected;
use sources::mcp::{
    AllowedProgram, AllowedPrograms, Credentials, McpConfig, McpSource, OfConnection, Packaged, Reach, Server, Started, Tiers,
};
use sources::package::PackageServer;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::Store;

/// Everything that sources are made of.
pub struct AddedConfig {
    pub store: Store,
    /// The credentials that their requests carry.
    pub connections: Connected,
    /// What operators allow them.
    pub allowed: Arc<AllowLists>,
    /// Where programs run; absent where none can.
    pub residents: Option<Arc<dyn Residents>>,
    /// The workspaces that programs may see.
    pub homes: Option<Arc<Homes>>,
    /// How many sources an org may have.
    pub sources_max: u32,
}

/// The added sources of every org.
pub struct AddedRegistry {
    config: AddedConfig,
    orgs: RwLock<HashMap<OrgId, Arc<OfOrg>>>,
    /// Held while sources of an org are made, so that each is made once.
    making: tokio::sync::Mutex<()>,
    /// Sources that were tried before they were added, until they are taken over.
    tried: Mutex<Vec<(OrgId, AddedSource, Made)>>,
}

/// A source, and what operators allowed it when it was made.
#[derive(Clone)]
pub struct Made {
    pub source: Arc<McpSource>,
    leave: Arc<Leave>,
}

/// The sources of one org, until the store has others.
struct OfOrg {
    added: Arc<Vec<AddedSource>>,
    /// In the order of `added`.
    made: Vec<Made>,
    sources: OrgSources,
    /// What operators allowed then.
    lists: Arc<Lists>,
}

impl OfOrg {
    fn find(&self, id: &SourceId, version: Option<i64>) -> Option<Made> {
        let is_it = |added: &AddedSource| added.id == *id && version.is_none_or(|version| version == added.version);
        self.added.iter().zip(&self.made).find(|(added, _)| is_it(added)).map(|(_, made)| made.clone())
    }
}

impl AddedRegistry {
    pub fn new(config: AddedConfig) -> Self {
        Self { config, orgs: RwLock::default(), making: tokio::sync::Mutex::default(), tried: Mutex::default() }
    }

    pub const fn sources_max(&self) -> u32 {
        self.config.sources_max
    }

    /// Removes the folder that the program of a source kept, once the source is gone. Its program may still be ending: what it writes then is
    /// gone with it.
    pub async fn forget_folder(&self, org: &OrgId, id: &SourceId) {
        let Some(folders) = self.config.allowed.fixed().folders.clone() else { return };
        let (org, id) = (org.clone(), id.clone());
        let removed = tokio::task::spawn_blocking(move || folders.remove(&org, &id)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "the folder of a source that was removed is left");
        }
    }

    /// What operators allow.
    pub const fn allowed(&self) -> &Arc<AllowLists> {
        &self.config.allowed
    }

    /// The folder below which packages of programs are installed.
    pub fn programs_folder(&self) -> Result<&Path, Error> {
        let why = "this server runs no programs: its settings say `allow_plugin_code_execution = false`";
        let none = || Error::Refused { code: "sandbox_unavailable", message: why.to_owned() };
        self.config.allowed.programs_folder().ok_or_else(none)
    }

    /// The source as it is now.
    pub async fn find(&self, org: &OrgId, id: &SourceId) -> Result<Option<Arc<McpSource>>, store::Error> {
        Ok(self.of(org).await?.find(id, None).map(|made| made.source))
    }

    /// Makes a source of these settings, beside those that there are. A program may be one that is not allowed yet, and is only tried.
    pub async fn make(
        &self,
        org: &OrgId,
        id: &SourceId,
        settings: &SourceSettings,
        tried: Option<&AllowedProgram>,
    ) -> Result<Made, store::Error> {
        let lists = self.config.allowed.now().await?;
        let unusable = |error: sources::Error| store::Error::Corrupt { message: error.to_string() };
        let (leave, programs) = match tried {
            Some(program) => {
                let programs = self.config.allowed.with(&lists, program).map_err(unusable)?;
                (Leave::Command(Some(lists.leave_for(program))), programs)
            }
            None => (lists.leave_of(settings), lists.programs.clone()),
        };
        let connection = match &settings.connection {
            Some(connection) => self.config.store.find_connection_by_id(org, connection).await?,
            None => None,
        };
        let source = Arc::new(McpSource::new(McpConfig {
            id: id.clone(),
            title: settings.title.clone(),
            server: self.server(org, id, settings, &lists, &programs),
            connection: settings.connection.clone(),
            server_sha256: Some(policy::digest::server(&settings.server, settings.connection.as_ref())),
            spaces: spaces_of(settings, connection.as_ref()),
            tiers: tiers_of(settings),
            list_timeout_ms: settings.list_timeout_ms,
            call_timeout_ms: settings.call_timeout_ms,
            hearer: Some(source_events::hearer(&self.config.store, org, id)),
        }));
        Ok(Made { source, leave: Arc::new(leave) })
    }

    /// Takes a source over that was tried and then added, with its connection.
    pub async fn take_over(&self, org: &OrgId, added: &AddedSource, made: Made) {
        self.tried.lock().push((org.clone(), added.clone(), made));
        if let Err(error) = self.of(org).await {
            tracing::warn!(%error, "the sources of an org could not be read");
        }
        self.tried.lock().retain(|(whose, tried, _)| whose != org || tried.id != added.id);
    }

    /// Gives up the connections and programs that no call may use any more: of sources that were removed or changed, and of those that a kill
    /// switch stops. Each ends with the last call that runs in it.
    pub async fn let_go(&self, org: &OrgId, catalogue: &Catalogue) {
        if self.known(org).is_none() {
            return;
        }
        catalogue.look_again(org).await;
        match self.config.store.list_switches(org).await {
            Ok(switches) => {
                let scopes: Vec<_> = switches.iter().map(|switch| &switch.scope).collect();
                self.disconnect(org, |source| scopes.iter().any(|scope| stops(scope, source.id())));
            }
            Err(error) => tracing::warn!(%error, %org, "it is not known which sources are stopped; they are looked at again"),
        }
    }

    /// Gives up every connection and program of an org that was disabled.
    pub fn let_go_of_all(&self, org: &OrgId) {
        self.disconnect(org, |_| true);
        self.orgs.write().remove(org);
    }

    /// Nobody waits for it: a connection that is just being opened is given up when it is open.
    fn disconnect(&self, org: &OrgId, is_meant: impl Fn(&McpSource) -> bool) {
        let made = self.known(org).map(|of_org| of_org.made.clone()).unwrap_or_default();
        for Made { source, .. } in made.into_iter().filter(|made| is_meant(&made.source)) {
            tokio::spawn(async move { source.disconnect().await });
        }
    }

    /// Ends every connection and every program.
    pub async fn close(&self) {
        let made: Vec<_> = self.orgs.read().values().flat_map(|of_org| of_org.made.iter().map(|made| Arc::clone(&made.source))).collect();
        let closing = join_all(made.iter().map(|source| source.disconnect()));
        if tokio::time::timeout(Duration::from_secs(SOURCES_CLOSE_SECONDS), closing).await.is_err() {
            tracing::warn!("some connections to sources did not close in time; they end with this process");
        }
    }

    fn server(&self, org: &OrgId, id: &SourceId, settings: &SourceSettings, lists: &Lists, programs: &AllowedPrograms) -> Server {
        match &settings.server {
            McpServer::Http { url } => {
                let credentials = settings.connection.clone().map(|connection| {
                    let connections = Arc::new(self.config.connections.clone());
                    Arc::new(OfConnection { connections, org: org.clone(), connection, url: url.clone() }) as Arc<dyn Credentials>
                });
                let (allowed_hosts, allowed_networks) = (lists.hosts.clone(), lists.networks.clone());
                Server::Http { url: url.clone(), allowed_hosts, allowed_networks, credentials }
            }
            McpServer::Program { command, env } => {
                let residents = match self.residents() {
                    Ok(residents) => residents,
                    Err(why) => return Server::Nowhere { why },
                };
                let home = self.config.homes.as_ref().and_then(|homes| homes.of(org).ok());
                // SECURITY: it answers several spaces for as long as it runs, so it must not see the workspace of a space with members.
                let program = programs.program(Started {
                    org: org.clone(),
                    source: id.clone(),
                    command: command.clone(),
                    env: env.clone(),
                    workspace: home.map(|home| home.places.shared().folder().to_owned()),
                    secrets: Arc::new(self.config.store.clone()),
                });
                Server::Program { residents, program, package: None, reach: programs.reach(org, id, command) }
            }
            McpServer::Package { package, env } => {
                let (residents, server) = match self.packaged(org, package) {
                    Ok(found) => found,
                    Err(why) => return Server::Nowhere { why },
                };
                let reach = Reach { hosts: server.manifest().hosts.clone(), workspace: server.manifest().sees_workspace(), folder: false };
                let package = Some(server.digest());
                let secrets = Arc::new(self.config.store.clone());
                let program = Arc::new(Packaged { org: org.clone(), source: id.clone(), server, env: env.clone(), secrets });
                Server::Program { residents, program, package, reach }
            }
        }
    }

    fn residents(&self) -> Result<Arc<dyn Residents>, Error> {
        let none = || Error::Refused { code: "sandbox_unavailable", message: "this server runs no programs".to_owned() };
        self.config.residents.as_ref().map(Arc::clone).ok_or_else(none)
    }

    /// The MCP server of a package as it is now, and where it runs.
    fn packaged(&self, org: &OrgId, package: &SourceId) -> Result<(Arc<dyn Residents>, PackageServer), Error> {
        let none = || Error::Refused { code: "package_missing", message: format!("there is no package `{package}` on this server") };
        let home = self.config.homes.as_ref().and_then(|homes| homes.of(org).ok()).ok_or_else(none)?;
        Ok((self.residents()?, home.packages.server(package)?))
    }

    /// Whether a source is allowed what it was made with, and runs the code that its package has now.
    fn is_current(&self, org: &OrgId, settings: &SourceSettings, made: &Made, lists: &Lists) -> bool {
        *made.leave == lists.leave_of(settings) && self.runs_its_package(org, settings, made)
    }

    /// Whether a source runs the code that its package has now. This looks at the package's folder, as every call of a package does.
    fn runs_its_package(&self, org: &OrgId, settings: &SourceSettings, made: &Made) -> bool {
        let now = match &settings.server {
            McpServer::Http { .. } | McpServer::Program { .. } => None,
            McpServer::Package { package, .. } => self.packaged(org, package).ok().map(|(_, server)| server.digest()),
        };
        made.source.code() == now
    }

    /// Whether these are still the sources of the org.
    fn are_current(&self, org: &OrgId, known: &OfOrg, added: &Arc<Vec<AddedSource>>, lists: &Arc<Lists>) -> bool {
        let mut each = known.added.iter().zip(&known.made);
        let are_same = Arc::ptr_eq(&known.added, added) && Arc::ptr_eq(&known.lists, lists);
        are_same && each.all(|(added, made)| self.runs_its_package(org, &added.settings, made))
    }

    fn known(&self, org: &OrgId) -> Option<Arc<OfOrg>> {
        self.orgs.read().get(org).map(Arc::clone)
    }

    /// The sources of the org as the store has them now. A source whose version and code did not change stays as it is.
    async fn of(&self, org: &OrgId) -> Result<Arc<OfOrg>, store::Error> {
        let (added, lists) = (self.config.store.added_sources(org).await?, self.config.allowed.now().await?);
        if let Some(known) = self.known(org).filter(|known| self.are_current(org, known, &added, &lists)) {
            return Ok(known);
        }
        let _alone = self.making.lock().await;
        // Read again: another caller may have made them meanwhile, or even later ones.
        let (added, known) = (self.config.store.added_sources(org).await?, self.known(org));
        let lists = self.config.allowed.now().await?;
        if let Some(known) = known.as_ref().filter(|known| self.are_current(org, known, &added, &lists)) {
            return Ok(Arc::clone(known));
        }
        let mut made = Vec::with_capacity(added.len());
        for source in added.iter() {
            let kept = known.as_ref().and_then(|known| known.find(&source.id, Some(source.version)));
            let kept = kept.filter(|kept| self.is_current(org, &source.settings, kept, &lists));
            let kept = kept.or_else(|| self.tried(org, source).filter(|tried| self.is_current(org, &source.settings, tried, &lists)));
            made.push(match kept {
                Some(kept) => kept,
                None => self.make(org, &source.id, &source.settings, None).await?,
            });
        }
        // The store may say the same in a new `Arc`, and then the sources are the same as well.
        let are_made = |known: &&Arc<OfOrg>| {
            known.made.len() == made.len() && known.made.iter().zip(&made).all(|(one, other)| Arc::ptr_eq(&one.source, &other.source))
        };
        let sources = match known.as_ref().filter(are_made) {
            Some(known) => Arc::clone(&known.sources),
            None => Arc::new(made.iter().map(|made| Arc::clone(&made.source) as Arc<dyn Source>).collect()),
        };
        let of_org = Arc::new(OfOrg { added, made, sources, lists });
        self.orgs.write().insert(org.clone(), Arc::clone(&of_org));
        Ok(of_org)
    }

    fn tried(&self, org: &OrgId, added: &AddedSource) -> Option<Made> {
        let tried = self.tried.lock();
        let found = tried.iter().find(|(whose, tried, _)| whose == org && tried.id == added.id && tried.version == added.version);
        found.map(|(_, _, made)| made.clone())
    }
}

impl SourceRegistry for AddedRegistry {
    fn sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, OrgSources> {
        Box::pin(async move {
            match self.of(org).await {
                Ok(of_org) => Arc::clone(&of_org.sources),
                Err(error) => {
                    tracing::error!(%error, %org, "the sources of an org could not be read");
                    self.known(org).map(|known| Arc::clone(&known.sources)).unwrap_or_default()
                }
            }
        })
    }
}

/// Whether a kill switch stops every call of a source.
fn stops(scope: &SwitchScope, source: &SourceId) -> bool {
    match scope {
        SwitchScope::Org => true,
        SwitchScope::Source(stopped) => stopped == source,
        SwitchScope::Space(_) | SwitchScope::Session(_) | SwitchScope::Action(_) => false,
    }
}

/// What an org has set about the tiers of a source.
pub fn tiers_of(settings: &SourceSettings) -> Tiers {
    Tiers { overrides: settings.tiers.clone(), hints: settings.hints, default: settings.default_tier }
}

/// The spaces whose calls may use both the source and its connection; `None`: all.
fn spaces_of(settings: &SourceSettings, connection: Option<&Connection>) -> Option<BTreeSet<SpaceId>> {
    let of_connection = connection.and_then(|connection| connection.spaces.as_ref());
    match (&settings.spaces, of_connection) {
        (None, None) => None,
        (Some(spaces), None) => Some(spaces.clone()),
        (None, Some(spaces)) => Some(spaces.iter().cloned().collect()),
        (Some(spaces), Some(others)) => Some(spaces.iter().filter(|space| others.contains(space)).cloned().collect()),
    }
}
