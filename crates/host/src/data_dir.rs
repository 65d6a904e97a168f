//! The data folder: private, locked by one server at a time, with the first owner's token. `master_key` has the files of the master key.

use crate::{Config, Error};
use countersign_core::{OrgId, Secret, ServerId};
use sources::workspace::Folders;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const OWNER_ONLY: u32 = 0o600;
const READ_BY_ALL: u32 = 0o644;

/// An open data folder. The lock lasts as long as this value.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

/// Where artifacts are inside a data folder, of all orgs, unless they are in a bucket.
pub fn artifacts_below(data: &Path) -> PathBuf {
    data.join("artifacts")
}

/// The workspace inside a data folder.
pub fn workspace_below(data: &Path) -> PathBuf {
    HomeDir::first(data).workspace()
}

/// The folders of one org: its workspaces with their snapshots, and its packages.
pub struct HomeDir(PathBuf);

impl HomeDir {
    /// The first org uses the data folder itself.
    pub fn first(data: &Path) -> Self {
        Self(data.to_owned())
    }

    pub fn of(data: &Path, org: &OrgId) -> Self {
        Self(data.join("orgs").join(org.as_str()))
    }

    pub fn workspace(&self) -> PathBuf {
        self.workspaces().root
    }

    /// The folders of its workspaces, of which `workspace` is the one that spaces share.
    pub fn workspaces(&self) -> Folders {
        Folders::below(&self.0)
    }

    pub fn packages(&self) -> PathBuf {
        self.0.join("packages")
    }
}

/// Holds the lock of a data folder, so that no server can start on it.
pub struct HeldData {
    folder: DataDir,
}

impl HeldData {
    /// The servers that served the folder before. They are gone, whatever their leases say.
    pub fn earlier_servers(&self) -> Vec<ServerId> {
        self.folder.earlier_servers()
    }
}

pub fn hold_data(config: &Config) -> Result<HeldData, Error> {
    DataDir::open(config).map(|folder| HeldData { folder })
}

impl DataDir {
    pub fn open(config: &Config) -> Result<Self, Error> {
        let path = config.data.clone();
        prepare(&path)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(OWNER_ONLY).open(path.join("lock"));
        let lock = lock.map_err(|error| unusable(&path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(std::fs::TryLockError::WouldBlock) => Err(Error::InUse { path }),
            Err(std::fs::TryLockError::Error(error)) => Err(unusable(&path, &error)),
        }
    }

    pub fn owner_token_file(&self) -> PathBuf {
        self.path.join("owner.token")
    }

    pub fn public_key_file(&self) -> PathBuf {
        self.path.join("receipt.pub")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The servers that served this folder before, as far as they are remembered, the last one first. A copied folder names servers that may
    /// still be alive, so the names only count if the folder's identity matches.
    pub fn earlier_servers(&self) -> Vec<ServerId> {
        let text = std::fs::read_to_string(self.server_file()).unwrap_or_default();
        match text.trim().rsplit_once(' ') {
            Some((servers, folder)) if self.identity().is_ok_and(|identity| identity == folder) => {
                servers.split(' ').filter_map(|server| ServerId::parse(server).ok()).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Records these servers for the next one.
    pub fn write_servers(&self, servers: &[ServerId]) -> Result<(), Error> {
        let servers = servers.iter().map(ServerId::as_str).collect::<Vec<_>>().join(" ");
        let written = self.identity().and_then(|folder| write_private(&self.server_file(), format!("{servers} {folder}\n").as_bytes()));
        written.map_err(|error| unusable(&self.path, &error))
    }

    /// Device and inode, which differ in a copy of the folder.
    fn identity(&self) -> std::io::Result<String> {
        let found = std::fs::metadata(&self.path)?;
        Ok(format!("{}:{}", found.dev(), found.ino()))
    }

    fn server_file(&self) -> PathBuf {
        self.path.join("server.id")
    }

    /// Records the URL of this server for other programs that use the same folder.
    pub fn write_url(&self, url: &str) -> Result<(), Error> {
        write_private(&self.path.join("server.url"), format!("{url}\n").as_bytes()).map_err(|error| unusable(&self.path, &error))
    }

    pub fn write_owner_token(&self, token: &Secret<String>) -> Result<(), Error> {
        write_private(&self.owner_token_file(), format!("{}\n", token.expose()).as_bytes()).map_err(|error| unusable(&self.path, &error))
    }

    /// Writes the public key, readable by everyone: verifiers of receipts pin it.
    pub fn write_public_key(&self, pem: &str) -> Result<(), Error> {
        write_whole(&self.public_key_file(), pem.as_bytes(), READ_BY_ALL).map_err(|error| unusable(&self.path, &error))
    }
}

/// The SQLite file inside a data folder.
pub(crate) fn database_file(data: &Path) -> PathBuf {
    data.join("countersign.db")
}

/// Whether the folder holds data that a new master key could not open. For PostgreSQL the folder alone does not show that.
pub(crate) fn holds_data(config: &Config) -> bool {
    config.database.is_none() && std::fs::metadata(database_file(&config.data)).is_ok_and(|file| file.len() > 0)
}

/// Creates the folder if it is missing. Only its owner may read it.
pub(crate) fn prepare(path: &Path) -> Result<(), Error> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| unusable(path, &error))
}

/// Creates the database file before SQLite does, so that only its owner can read it. SQLite's companion files take over the mode.
pub(crate) fn private_database_file(data: &Path) -> Result<PathBuf, Error> {
    let path = database_file(data);
    let made = OpenOptions::new().create(true).append(true).mode(OWNER_ONLY).open(&path);
    made.map(|_| path.clone()).map_err(|error| unusable(&path, &error))
}

/// Writes a file that others cannot read at any moment.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    write_whole(path, bytes, OWNER_ONLY)
}

/// Writes a file completely or not at all, and durably.
fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let part = path.with_extension("part");
    let _leftover = std::fs::remove_file(&part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    sync_folder_of(path)
}

/// Makes it durable that the folder has this file.
pub(crate) fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

pub fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::DataDir { path: path.to_owned(), message: error.to_string() }
}
