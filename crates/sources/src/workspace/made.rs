//! The folders that a change has to create first.

use super::open::{FOLDER, open_beneath, sync_folder};
use super::outcome::unchanged;
use super::path::WorkspacePath;
use super::root::Reached;
use countersign_core::source::Error;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Folders that a write created, each with its parent. If this is dropped before the write is in place, they are removed again.
pub(crate) struct MadeFolders(Vec<(OwnedFd, String)>);

impl MadeFolders {
    /// Creates the missing folders, and also returns the innermost one.
    pub(crate) fn make(reached: Reached<'_>, path: &WorkspacePath) -> Result<(OwnedFd, Self), Error> {
        let failed = |errno| unchanged(errno, path.as_str());
        let mut made = Self(Vec::new());
        let mut folder = reached.folder;
        for name in reached.missing {
            let is_new = match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                // Another process created it first. If it is a folder, we use it; if it is a link, opening it is refused.
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(failed(errno)),
            };
            let inner = open_beneath(&folder, name, FOLDER, Mode::empty());
            let synced = sync_folder(&folder);
            if is_new {
                made.0.push((folder, name.to_owned()));
            }
            synced.map_err(failed)?;
            folder = inner.map_err(failed)?;
        }
        Ok((folder, made))
    }

    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for (outer, name) in self.0.drain(..).rev() {
            // Fails if the folder is not empty by now, and then it must stay.
            let _ = rustix::fs::unlinkat(&outer, &name, AtFlags::REMOVEDIR);
        }
    }
}
