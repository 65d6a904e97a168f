//! Content that is about to be replaced, kept under its digest. What a receipt calls `previous_sha256` is found here.

use super::outcome::{content_changed, unchanged};
use super::path::WorkspacePath;
use super::regular::Regular;
use super::staged::Staged;
use super::workspace::{open_folder, remove_leftovers, sync_folder};
use countersign_core::Digest;
use countersign_core::limits::FILE_SNAPSHOT_BYTES_MAX;
use countersign_core::source::Error;
use rustix::fs::Mode;
use sha2::{Digest as _, Sha256};
use std::os::fd::OwnedFd;
use std::path::Path;

pub(super) struct Snapshots {
    folder: OwnedFd,
}

impl Snapshots {
    pub(super) fn open(path: &Path) -> Result<Self, crate::Error> {
        let folder = open_folder(path)?;
        remove_leftovers(&folder);
        Ok(Self { folder })
    }

    /// Keeps what `file` holds, on disk when this returns. The content must still be the one with this digest.
    pub(super) fn keep(&self, file: &Regular, digest: Digest, path: &WorkspacePath, temporary: &str) -> Result<(), Error> {
        let mut staged = Staged::create(&self.folder, temporary, Mode::RUSR | Mode::WUSR, path)?;
        let mut hasher = Sha256::new();
        file.each_chunk(FILE_SNAPSHOT_BYTES_MAX, |chunk| {
            hasher.update(chunk);
            staged.write(chunk)
        })?;
        if Digest::new(hasher.finalize().into()) != digest {
            return Err(content_changed(path.as_str()));
        }
        staged.sync()?;
        staged.replace(&digest.to_string()).map_err(|errno| unchanged(errno, path.as_str()))?;
        sync_folder(&self.folder).map_err(|errno| unchanged(errno, path.as_str()))
    }
}
