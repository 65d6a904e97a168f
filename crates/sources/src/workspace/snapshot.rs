//! Snapshots: content that is about to be replaced, kept under its digest. A receipt refers to it as `previous_sha256`.

use super::open::{open_beneath, open_folder, sync_folder};
use super::outcome::{content_changed, unchanged, unchanged_io};
use super::path::WorkspacePath;
use super::regular::Regular;
use super::root::remove_leftovers;
use super::staged::Staged;
use crate::words::{failed, shown};
use countersign_core::fault::Faults;
use countersign_core::limits::FILE_SNAPSHOT_BYTES_MAX;
use countersign_core::source::Error;
use countersign_core::{Digest, Timestamp};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// How many bytes of a snapshot are in memory at a time.
const CHUNK_BYTES: usize = 64 * 1024;

pub(crate) struct Snapshots {
    folder: OwnedFd,
    /// Held while a snapshot is added or removed, so that a snapshot that is kept again is not removed for its old age.
    entering: Mutex<()>,
    faults: Faults,
}

/// How much content is kept for reverting calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub files: usize,
    pub bytes: u64,
    /// The number of snapshots that were just removed.
    pub forgotten: usize,
}

impl Kept {
    pub const fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.forgotten += other.forgotten;
    }
}

impl Snapshots {
    pub(crate) fn open(path: &Path) -> Result<Self, crate::Error> {
        let folder = open_folder(path)?;
        remove_leftovers(&folder);
        Ok(Self { folder, entering: Mutex::new(()), faults: Faults::default() })
    }

    pub(super) fn listen(&mut self, faults: &Faults) {
        self.faults = faults.clone();
    }

    /// Keeps the content of `file`, which is on disk when this returns. The content must still have this digest.
    pub(crate) fn keep(&self, file: &Regular, digest: Digest, path: &WorkspacePath, temporary: &str) -> Result<(), Error> {
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
        self.faults.point("snapshot.staged");
        let _entering = self.entering.lock();
        staged.replace(&digest.to_string()).map_err(|errno| unchanged(errno, path.as_str()))?;
        sync_folder(&self.folder).map_err(|errno| unchanged(errno, path.as_str()))
    }

    /// Keeps bytes that are stored nowhere else yet. They are on disk when this returns. Returns their digest.
    pub(crate) fn keep_bytes(&self, bytes: &[u8], path: &WorkspacePath, temporary: &str) -> Result<Digest, Error> {
        let digest = Digest::new(Sha256::digest(bytes).into());
        let mut staged = Staged::create(&self.folder, temporary, Mode::RUSR | Mode::WUSR, path)?;
        staged.write(bytes)?;
        staged.sync()?;
        self.faults.point("snapshot.staged");
        let _entering = self.entering.lock();
        staged.replace(&digest.to_string()).map_err(|errno| unchanged(errno, path.as_str()))?;
        sync_folder(&self.folder).map_err(|errno| unchanged(errno, path.as_str()))?;
        Ok(digest)
    }

    /// The same for bytes that are kept again and again: if they are there already, and whole, nothing is written.
    pub(crate) fn keep_once(&self, bytes: &[u8], path: &WorkspacePath, temporary: &str) -> Result<Digest, Error> {
        let digest = Digest::new(Sha256::digest(bytes).into());
        let is_there = {
            let _entering = self.entering.lock();
            self.copy(digest, path, |_| Ok(())).is_ok() && self.make_young(digest).is_ok()
        };
        if is_there { Ok(digest) } else { self.keep_bytes(bytes, path, temporary) }
    }

    /// Sets the age of a snapshot to zero, as if it were kept now.
    fn make_young(&self, digest: Digest) -> Result<(), Errno> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        rustix::fs::utimensat(&self.folder, digest.to_string(), &times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes the snapshots of all these that were kept before `then`; then the oldest ones, while all together have more than `bytes_max`.
    /// Those kept since `spared` stay.
    pub(crate) fn forget(all: &[&Self], then: Timestamp, bytes_max: u64, spared: Timestamp) -> Result<Kept, Errno> {
        let mut kept = Kept::default();
        let mut old = Vec::new();
        for (index, snapshots) in all.iter().enumerate() {
            for entry in Dir::read_from(&snapshots.folder)? {
                let entry = entry?;
                let name = entry.file_name().to_str().ok().filter(|name| Digest::parse(name).is_some());
                let Some(name) = name else { continue };
                match snapshots.forget_one(name, seconds(then))? {
                    None => kept.forgotten += 1,
                    Some((age, bytes)) => {
                        kept.files += 1;
                        kept.bytes += bytes;
                        if age < seconds(spared) {
                            old.push((age, bytes, name.to_owned(), index));
                        }
                    }
                }
            }
        }
        old.sort_unstable();
        for (age, bytes, name, index) in old {
            if kept.bytes <= bytes_max {
                break;
            }
            // It may have been kept again meanwhile; then it is young, and stays.
            if all[index].forget_one(&name, age + 1)?.is_none() {
                kept.forgotten += 1;
                kept.files -= 1;
                kept.bytes -= bytes;
            }
        }
        Ok(kept)
    }

    /// Removes a snapshot if it was kept before this second. Otherwise it says when it was kept, and its bytes.
    fn forget_one(&self, name: &str, then: i64) -> Result<Option<(i64, u64)>, Errno> {
        let _entering = self.entering.lock();
        let found = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if found.st_mtime < then {
            rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?;
            return Ok(None);
        }
        Ok(Some((found.st_mtime, u64::try_from(found.st_size).unwrap_or(0))))
    }

    /// Passes on the snapshot of `path` with this digest. Fails if the content no longer has that digest.
    pub(crate) fn copy(&self, digest: Digest, path: &WorkspacePath, mut each: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let lost = || failed("snapshot_lost", format!("what `{}` held before is not among the snapshots any more", shown(path.as_str())));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = open_beneath(&self.folder, &digest.to_string(), flags, Mode::empty()).map_err(|_| lost())?;
        let mut file = File::from(opened);
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    hasher.update(&chunk[..read]);
                    each(&chunk[..read])?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unchanged_io(&error, path.as_str())),
            }
        }
        if Digest::new(hasher.finalize().into()) == digest { Ok(()) } else { Err(lost()) }
    }
}

const fn seconds(at: Timestamp) -> i64 {
    at.as_micros() / 1_000_000
}
