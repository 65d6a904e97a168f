//! The hosts, networks and commands that sources of every org may use: those that the file of settings fixes, and those that operators have
//! allowed since. The latter are in the database, so that every server on it follows each change at once, without a restart.

use countersign_core::OrgId;
use countersign_core::allowed::AllowedList;
use countersign_core::ports::EventFeed;
use countersign_core::ports::sources::{McpServer, SourceSettings};
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};
use sources::mcp::{AllowedProgram, AllowedPrograms, ProgramFolders};
use sources::web::HostRule;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{AllowedRow, Store};
use tokio_util::sync::CancellationToken;

/// How long the lists are not looked at again while nothing happens. Every event of the first org has them looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How much of the digest of a command's words is its id.
const ID_BYTES: usize = 8;

/// What the file of settings fixes, and where programs are installed.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    pub hosts: Vec<HostRule>,
    pub networks: Vec<IpNet>,
    pub commands: Vec<AllowedProgram>,
    /// Where packages of programs are installed, and what programs keep; absent where none run.
    pub folders: Option<ProgramFolders>,
}

/// What sources may use now.
pub struct Lists {
    pub hosts: Vec<HostRule>,
    pub networks: Vec<IpNet>,
    pub commands: Vec<AllowedProgram>,
    pub programs: AllowedPrograms,
    /// What operators have allowed, as the store has it.
    pub rows: Arc<Vec<AllowedRow>>,
}

/// The part of the lists that a source was made with. With another one it is made anew.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leave {
    Hosts(Vec<HostRule>, Vec<IpNet>),
    /// Its networks only matter where it has hosts.
    Command(Option<(AllowedProgram, Vec<IpNet>)>),
    Nothing,
}

type Told = Box<dyn Fn(&Lists) -> Result<(), sources::Error> + Send + Sync>;

/// The lists as they are now.
pub struct AllowLists {
    store: Store,
    /// The org whose owners are the operators.
    first: OrgId,
    fixed: Fixed,
    now: RwLock<Arc<Lists>>,
    /// Held while the lists are replaced, so that the latest ones stay.
    replacing: tokio::sync::Mutex<()>,
    /// Who is told of every change.
    told: Mutex<Vec<Told>>,
}

impl AllowLists {
    pub fn new(store: Store, first: OrgId, fixed: Fixed) -> Result<Self, sources::Error> {
        let now = RwLock::new(Arc::new(lists(&fixed, Arc::default())?));
        Ok(Self { store, first, fixed, now, replacing: tokio::sync::Mutex::default(), told: Mutex::default() })
    }

    /// Calls this for every change from here on.
    pub fn tell(&self, told: impl Fn(&Lists) -> Result<(), sources::Error> + Send + Sync + 'static) {
        self.told.lock().push(Box::new(told));
    }

    pub const fn fixed(&self) -> &Fixed {
        &self.fixed
    }

    pub fn programs_folder(&self) -> Option<&Path> {
        self.fixed.folders.as_ref().map(|folders| folders.installed.as_path())
    }

    /// The lists as the store has them now.
    pub async fn now(&self) -> Result<Arc<Lists>, store::Error> {
        let rows = self.store.list_allowed(&self.first).await?;
        if let Some(known) = self.known(&rows) {
            return Ok(known);
        }
        let _alone = self.replacing.lock().await;
        // Read again: another caller may have read later ones meanwhile.
        let rows = self.store.list_allowed(&self.first).await?;
        if let Some(known) = self.known(&rows) {
            return Ok(known);
        }
        let unusable = |error: &sources::Error| store::Error::Corrupt { message: format!("what operators allow cannot be used: {error}") };
        let lists = Arc::new(lists(&self.fixed, rows).map_err(|error| unusable(&error))?);
        for tell in self.told.lock().iter() {
            if let Err(error) = tell(&lists) {
                tracing::error!(%error, "what operators allow could not be passed on");
            }
        }
        *self.now.write() = Arc::clone(&lists);
        Ok(lists)
    }

    /// The lists that are known, if they are of these rows. The store may say the same in a new `Arc`.
    fn known(&self, rows: &Arc<Vec<AllowedRow>>) -> Option<Arc<Lists>> {
        let known = Arc::clone(&self.now.read());
        (Arc::ptr_eq(&known.rows, rows) || known.rows == *rows).then_some(known)
    }

    /// The programs that are allowed, with one more, which is only tried.
    pub fn with(&self, lists: &Lists, tried: &AllowedProgram) -> Result<AllowedPrograms, sources::Error> {
        let others = lists.commands.iter().filter(|allowed| allowed.command != tried.command).cloned();
        AllowedPrograms::new(others.chain([tried.clone()]).collect(), &lists.networks, self.fixed.folders.clone().unwrap_or_default())
    }

    /// Takes over what operators change on other servers, also while nobody calls a source.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut newest = 0;
        loop {
            if let Err(error) = self.now().await {
                tracing::warn!(%error, "what operators allow could not be read; it is read again");
            }
            newest = self.store.newest_event(&self.first).await.unwrap_or(newest);
            tokio::select! {
                () = self.store.wait_for_event(&self.first, newest) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

impl Lists {
    /// What a source with these settings may use, and is made with.
    pub(crate) fn leave_of(&self, settings: &SourceSettings) -> Leave {
        match &settings.server {
            McpServer::Http { .. } => Leave::Hosts(self.hosts.clone(), self.networks.clone()),
            McpServer::Program { command, .. } => Leave::Command(self.find(command).map(|program| self.leave_for(program))),
            McpServer::Package { .. } => Leave::Nothing,
        }
    }

    /// What a program is made with.
    pub(crate) fn leave_for(&self, program: &AllowedProgram) -> (AllowedProgram, Vec<IpNet>) {
        (program.clone(), if program.hosts.is_empty() { Vec::new() } else { self.networks.clone() })
    }

    pub fn find(&self, command: &[String]) -> Option<&AllowedProgram> {
        self.commands.iter().find(|program| program.command == command)
    }
}

/// The name of a command in the log and in the API: words can be long, and can be secret.
pub fn id_of(command: &[String]) -> String {
    let words = serde_json::to_string(command).unwrap_or_default();
    hex::encode(&Sha256::digest(words)[..ID_BYTES])
}

/// What the file fixes, and what the rows add. A row that this server cannot read allows nothing.
fn lists(fixed: &Fixed, rows: Arc<Vec<AllowedRow>>) -> Result<Lists, sources::Error> {
    let Fixed { mut hosts, mut networks, mut commands, .. } = fixed.clone();
    for row in rows.iter() {
        let taken = match row.list {
            AllowedList::Hosts => row.entry.parse::<HostRule>().map(|host| add(&mut hosts, host)).map_err(|error| error.to_string()),
            AllowedList::Networks => {
                row.entry.parse::<IpNet>().map(|network| add(&mut networks, network)).map_err(|error| error.to_string())
            }
            AllowedList::Commands => program_of(row).map(|program| {
                // What the file says of a command counts.
                if commands.iter().all(|known| known.command != program.command) {
                    commands.push(program);
                }
            }),
        };
        if let Err(error) = taken {
            tracing::error!(list = %row.list, entry = row.entry, error, "what an operator allows cannot be read by this version, and is not allowed");
        }
    }
    let programs = AllowedPrograms::new(commands.clone(), &networks, fixed.folders.clone().unwrap_or_default())?;
    Ok(Lists { hosts, networks, commands, programs, rows })
}

fn add<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

pub fn program_of(row: &AllowedRow) -> Result<AllowedProgram, String> {
    serde_json::from_str(row.terms.as_deref().unwrap_or_default()).map_err(|error| error.to_string())
}
