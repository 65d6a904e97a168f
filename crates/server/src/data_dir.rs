//! The data folder: private, locked by one server at a time, with the master key and the first owner's token.

use crate::{Config, Error};
use countersign_core::{OrgId, Random, Secret, ServerId, random_bytes};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use store::MasterKey;

const OWNER_ONLY: u32 = 0o600;
const READ_BY_ALL: u32 = 0o644;

/// An open data folder. The lock lasts as long as this value.
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

/// The workspace inside a data folder.
pub(crate) fn workspace_below(data: &Path) -> PathBuf {
    data.join("workspace")
}

/// The folders of one org: its workspace, its snapshots and its packages.
pub(crate) struct HomeDir(PathBuf);

impl HomeDir {
    /// The first org uses the data folder itself.
    pub(crate) fn first(data: &Path) -> Self {
        Self(data.to_owned())
    }

    pub(crate) fn of(data: &Path, org: &OrgId) -> Self {
        Self(data.join("orgs").join(org.as_str()))
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        workspace_below(&self.0)
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.0.join("snapshots")
    }

    pub(crate) fn packages(&self) -> PathBuf {
        self.0.join("packages")
    }
}

/// Holds the lock of a data folder, so that no server can start on it.
pub struct HeldData {
    _folder: DataDir,
}

pub fn hold_data(config: &Config) -> Result<HeldData, Error> {
    DataDir::open(config).map(|folder| HeldData { _folder: folder })
}

impl DataDir {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
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

    pub(crate) fn owner_token_file(&self) -> PathBuf {
        self.path.join("owner.token")
    }

    pub(crate) fn public_key_file(&self) -> PathBuf {
        self.path.join("receipt.pub")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The servers that served this folder before, as far as they are remembered, the last one first. A copied folder names servers that may
    /// still be alive, so the names only count if the folder's identity matches.
    pub(crate) fn earlier_servers(&self) -> Vec<ServerId> {
        let text = std::fs::read_to_string(self.server_file()).unwrap_or_default();
        match text.trim().rsplit_once(' ') {
            Some((servers, folder)) if self.identity().is_ok_and(|identity| identity == folder) => {
                servers.split(' ').filter_map(|server| ServerId::parse(server).ok()).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Records these servers for the next one.
    pub(crate) fn write_servers(&self, servers: &[ServerId]) -> Result<(), Error> {
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
    pub(crate) fn write_url(&self, url: &str) -> Result<(), Error> {
        write_private(&self.path.join("server.url"), format!("{url}\n").as_bytes()).map_err(|error| unusable(&self.path, &error))
    }

    pub(crate) fn write_owner_token(&self, token: &Secret<String>) -> Result<(), Error> {
        write_private(&self.owner_token_file(), format!("{}\n", token.expose()).as_bytes()).map_err(|error| unusable(&self.path, &error))
    }

    /// Writes the public key, readable by everyone: verifiers of receipts pin it.
    pub(crate) fn write_public_key(&self, pem: &str) -> Result<(), Error> {
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

/// What to do when there is no master key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Create one: this is a first start.
    Create,
    /// Refuse: there is data, and its key is missing.
    Refuse,
}

/// Creates the database file before SQLite does, so that only its owner can read it. SQLite's companion files take over the mode.
pub(crate) fn private_database_file(data: &Path) -> Result<PathBuf, Error> {
    let path = database_file(data);
    let made = OpenOptions::new().create(true).append(true).mode(OWNER_ONLY).open(&path);
    made.map(|_| path.clone()).map_err(|error| unusable(&path, &error))
}

/// Reads the master key, or creates it if there is none yet and `absent` allows it. A file that others can read is refused.
pub(crate) fn master_key(config: &Config, absent: Absent, random: &dyn Random) -> Result<MasterKey, Error> {
    let path = config.master_key_file.clone().unwrap_or_else(|| config.data.join("master.key"));
    let text = match File::open(&path) {
        Ok(file) => read_private(file, &path)?,
        Err(error) if error.kind() == ErrorKind::NotFound && absent == Absent::Refuse => {
            let message =
                "it is missing, and nothing that is stored opens without it: copy the `master.key` that belongs to the data here first"
                    .to_owned();
            return Err(Error::DataDir { path, message });
        }
        Err(error) if error.kind() == ErrorKind::NotFound && config.master_key_file.is_none() => write_key(&path, random)?,
        Err(error) => return Err(unusable(&path, &error)),
    };
    parse_key(&text, path)
}

/// Reads the key that shall take the place of the master key, or creates it if there is no such file.
pub(crate) fn next_master_key(path: &Path, random: &dyn Random) -> Result<MasterKey, Error> {
    // A name without a folder has none that could be made durable.
    let path = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
    let text = match File::open(&path) {
        Ok(file) => read_private(file, &path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => write_key(&path, random)?,
        Err(error) => return Err(unusable(&path, &error)),
    };
    parse_key(&text, path)
}

fn write_key(path: &Path, random: &dyn Random) -> Result<Secret<String>, Error> {
    let secret = Secret::new(hex::encode(random_bytes::<32>(random)));
    write_private(path, secret.expose().as_bytes()).map_err(|error| unusable(path, &error))?;
    Ok(secret)
}

fn parse_key(text: &Secret<String>, path: PathBuf) -> Result<MasterKey, Error> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text.expose().trim(), &mut bytes)
        .map_err(|_| Error::DataDir { path, message: "the master key is not 64 hex characters".into() })?;
    Ok(MasterKey::new(&Secret::new(bytes)))
}

fn read_private(mut file: File, path: &Path) -> Result<Secret<String>, Error> {
    let mode = file.metadata().map_err(|error| unusable(path, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = format!("others can read it (mode {:o}); run `chmod 600` on it", mode & 0o777);
        return Err(Error::DataDir { path: path.to_owned(), message });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| unusable(path, &error))?;
    Ok(Secret::new(text))
}

/// Writes a file that others cannot read at any moment.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
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
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::DataDir { path: path.to_owned(), message: error.to_string() }
}
