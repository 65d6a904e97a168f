//! The id of a workspace. Servers that share a database do not share their disks, so the evidence of a change names its workspace, and no
//! server looks for it elsewhere. The id is a file in the folder itself, so servers that share the folder share the id.

use super::open::{folder_error, open_beneath, sync_folder};
use super::path::WorkspacePath;
use super::staged::Staged;
use crate::Error as SetupError;
use countersign_core::source::Error;
use countersign_core::{Random, random_bytes};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A reserved name: no action can read, list, write or delete it.
pub const ID_FILE: &str = ".countersign-workspace";

const DIGITS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WorkspaceId(String);

impl WorkspaceId {
    /// The id in the folder; a new one is made if there is none. `path` is used in error messages.
    pub(crate) fn find_or_make(folder: &OwnedFd, path: &Path, random: &dyn Random) -> Result<Self, SetupError> {
        if let Some(found) = Self::find(folder, path)? {
            return Ok(found);
        }
        let unusable = |message: String| SetupError::WorkspaceId { path: path.join(ID_FILE).display().to_string(), message };
        Self::draw(random).put(folder).map_err(|error| unusable(error.to_string()))?;
        // Another server may have written an id first.
        Self::find(folder, path)?.ok_or_else(|| unusable("it was written, and is not there".to_owned()))
    }

    fn draw(random: &dyn Random) -> Self {
        let mut text = String::with_capacity(DIGITS);
        for byte in random_bytes::<{ DIGITS / 2 }>(random) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    fn find(folder: &OwnedFd, path: &Path) -> Result<Option<Self>, SetupError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match open_beneath(folder, ID_FILE, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(folder_error(&path.join(ID_FILE), &errno.into())),
        };
        let mut text = String::new();
        // A little more than an id and its line break, so that a longer content is noticed.
        let read = file.take(DIGITS as u64 + 2).read_to_string(&mut text);
        read.map_err(|error| folder_error(&path.join(ID_FILE), &error))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let is_id = text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_id {
            return Ok(Some(Self(text.to_owned())));
        }
        let message =
            format!("it does not hold {DIGITS} hex digits: put back the file that belongs here, or remove it to have a new one made");
        Err(SetupError::WorkspaceId { path: path.join(ID_FILE).display().to_string(), message })
    }

    /// Writes the id; it is whole and on disk when this returns, unless another id is there already. It is no secret, and code in the
    /// workspace may read it.
    fn put(&self, folder: &OwnedFd) -> Result<(), Error> {
        let (path, temporary) = (WorkspacePath::parse("id")?, format!("{ID_FILE}-{}", self.0));
        let mode = Mode::from_raw_mode(0o644);
        let mut staged = Staged::create(folder, &temporary, mode, &path)?;
        staged.write(format!("{}\n", self.0).as_bytes())?;
        staged.set_mode(mode)?;
        staged.sync()?;
        match staged.appear(ID_FILE) {
            Ok(()) => sync_folder(folder).map_err(|errno| super::outcome::unchanged(errno, ID_FILE)),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(super::outcome::unchanged(errno, ID_FILE)),
        }
    }
}

#[cfg(test)]
#[path = "id_tests.rs"]
mod tests;
