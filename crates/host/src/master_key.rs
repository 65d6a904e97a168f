//! The files of the master key: `master.key`, beside it `master.key.next` until it has been replaced, and `master.key.old` from then on. The
//! database names the key that seals (`store/keys/replace.rs`), and a server reads with every key it has. So files that a crash or an operator
//! left at any moment work, as long as no key is missing.

use crate::data_dir::{sync_folder_of, unusable, write_private};
use crate::{Config, Error};
use countersign_core::{PrincipalId, Random, Secret, random_bytes};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use store::{BegunReplacement, MasterKey, MasterKeyId, Store};

/// What to do when there is no master key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Create one: this is a first start.
    Create,
    /// Refuse: there is data, and its key is missing.
    Refuse,
}

/// Where the master key of this server is.
#[derive(Clone, Debug)]
pub struct MasterKeyFiles {
    place: PathBuf,
    /// The operator has named the file. Then no key is ever made.
    is_named: bool,
}

impl MasterKeyFiles {
    /// The files at this place, which is the server's own.
    pub fn at(place: PathBuf) -> Self {
        Self { place, is_named: false }
    }

    pub fn of(config: &Config) -> Self {
        match &config.master_key_file {
            Some(place) => Self { place: place.clone(), is_named: true },
            None => Self::at(config.data.join("master.key")),
        }
    }

    /// Reads the master key, or creates it if there is none yet and `absent` allows it. A file that others can read is refused.
    pub fn present(&self, absent: Absent, random: &dyn Random) -> Result<MasterKey, Error> {
        let path = &self.place;
        let text = match File::open(path) {
            Ok(file) => read_private(file, path)?,
            Err(error) if error.kind() == ErrorKind::NotFound && absent == Absent::Refuse => {
                let message =
                    "it is missing, and nothing that is stored opens without it: copy the `master.key` that belongs to the data here first"
                        .to_owned();
                return Err(Error::DataDir { path: path.clone(), message });
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !self.is_named => write_key(path, random)?,
            Err(error) => return Err(unusable(path, &error)),
        };
        parse_key(&text, path)
    }

    /// Reads the key that replaces the present one, if there is such a file.
    pub fn next(&self) -> Result<Option<MasterKey>, Error> {
        let path = self.beside(".next");
        match File::open(&path) {
            Ok(file) => parse_key(&read_private(file, &path)?, &path).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// Puts the next key in the place of the present one, if it is the one that seals. Returns whether it did. At every moment each of the two
    /// keys has a file that is read at the next start.
    fn settle(&self, seals: MasterKeyId) -> Result<bool, Error> {
        let (present, next) = (self.read_present()?, self.next()?);
        if next.is_none_or(|next| next.id() != seals) || parse_key(&present, &self.place)?.id() == seals {
            return Ok(false);
        }
        self.must_have_room(&present)?;
        let old = self.beside(".old");
        write_private(&old, present.expose().as_bytes()).map_err(|error| unusable(&old, &error))?;
        let replaced = std::fs::rename(self.beside(".next"), &self.place).and_then(|()| sync_folder_of(&self.place));
        replaced.map_err(|error| unusable(&self.place, &error))?;
        Ok(true)
    }

    /// The key before the last replacement may be needed for older backups: it is never overwritten.
    fn must_have_room(&self, present: &Secret<String>) -> Result<(), Error> {
        let path = self.beside(".old");
        let old = match File::open(&path) {
            Ok(file) => read_private(file, &path)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unusable(&path, &error)),
        };
        // An earlier try may have come this far.
        if old.expose() == present.expose() {
            return Ok(());
        }
        let message = "it is the key before the last replacement: keep it elsewhere, or destroy it, first".to_owned();
        Err(Error::DataDir { path, message })
    }

    fn read_present(&self) -> Result<Secret<String>, Error> {
        let file = File::open(&self.place).map_err(|error| unusable(&self.place, &error))?;
        read_private(file, &self.place)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.place.clone().into_os_string();
        name.push(ending);
        name.into()
    }
}

/// Why a replacement did not begin. Nothing was changed.
pub enum Refused {
    /// An earlier one has not ended.
    Changing,
    /// The next key is not where it is needed; in a sentence.
    Unready(String),
    Store(store::Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let Error::DataDir { path, message } = &error else {
            return Self::Unready(error.to_string());
        };
        Self::Unready(format!("`{}` cannot be used: {message}; nothing was changed", path.display()))
    }
}

impl From<store::Error> for Refused {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// Makes the next key the one that seals. A server that works alone makes it; several need the same one, which the operator gives them.
pub async fn begin(files: &MasterKeyFiles, store: &Store, random: &dyn Random, by: Option<&PrincipalId>) -> Result<(), Refused> {
    if store.find_master_key().await?.is_some_and(|state| state.is_replacing()) {
        return Err(Refused::Changing);
    }
    let present = files.read_present()?;
    files.must_have_room(&present)?;
    let place = files.beside(".next");
    let next = match files.next()? {
        Some(next) => next,
        None => {
            if files.is_named || has_company(store).await? {
                return Err(Refused::Unready(format!("there is no `{}`; nothing was changed", place.display())));
            }
            // It is on the disk before anything is sealed under it.
            parse_key(&write_key(&place, random)?, &place)?
        }
    };
    if next.id() == parse_key(&present, &files.place)?.id() {
        return Err(Refused::Unready(format!("`{}` holds the key that is to be replaced; nothing was changed", place.display())));
    }
    match store.begin_replacement(next, by).await? {
        // The key that seals already has yet to get its place.
        BegunReplacement::Begun | BegunReplacement::Same => Ok(()),
        BegunReplacement::Running => Err(Refused::Changing),
        BegunReplacement::Missing(servers) => {
            let servers: Vec<_> = servers.iter().map(|server| format!("`{server}`")).collect();
            let (are, place) = (if servers.len() == 1 { "a server does" } else { "servers do" }, place.display());
            Err(Refused::Unready(format!("{are} not have the key in `{place}` yet: {}; nothing was changed", servers.join(", "))))
        }
    }
}

/// Goes on with a replacement until everything is sealed under the new key, and gives that its place. `resealed` is told how many values each
/// write has sealed. Whatever interrupts it, the next call goes on, of this server or of another.
pub async fn carry_on(files: &MasterKeyFiles, store: &Store, mut resealed: impl FnMut(u64) + Send) -> Result<(), Error> {
    loop {
        match store.reseal_some().await? {
            0 => break,
            values => resealed(values),
        }
    }
    let Some(state) = store.find_master_key().await? else {
        return Ok(());
    };
    // One that has begun a moment ago is gone on with the next time.
    if state.is_replacing() && store.count_sealed_otherwise(state.seals).await? > 0 {
        return Ok(());
    }
    // Whoever is told of the end finds the files in their places. Where they cannot be changed, the operator does that.
    let settled = files.settle(state.seals);
    if state.is_replacing() {
        store.end_replacement(state.seals).await?;
    }
    if settled? {
        store.keep_only_master_key(state.seals);
        tracing::info!(key = %files.place.display(), "the master key was replaced; the one before it is beside it, as `.old`");
    }
    Ok(())
}

/// What a server does again and again: it learns the next key, so that it can say that it has it, and goes on with a replacement.
pub async fn tend(files: &MasterKeyFiles, store: &Store) -> Result<(), Error> {
    if let Some(next) = files.next()? {
        store.learn_master_key(next);
    }
    carry_on(files, store, |_| {}).await
}

async fn has_company(store: &Store) -> Result<bool, store::Error> {
    let is_other = |server: &store::Server| !server.is_gone && server.id != *store.server_id();
    Ok(store.may_be_shared() && store.list_servers().await?.iter().any(is_other))
}

fn write_key(path: &Path, random: &dyn Random) -> Result<Secret<String>, Error> {
    let secret = Secret::new(hex::encode(random_bytes::<32>(random)));
    write_private(path, secret.expose().as_bytes()).map_err(|error| unusable(path, &error))?;
    Ok(secret)
}

fn parse_key(text: &Secret<String>, path: &Path) -> Result<MasterKey, Error> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text.expose().trim(), &mut bytes)
        .map_err(|_| Error::DataDir { path: path.to_owned(), message: "the master key is not 64 hex characters".into() })?;
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
