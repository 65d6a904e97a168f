//! The workspace folder: what is known of it from the start, and how far a path in it exists.

use super::id::ID_FILE;
use super::open::{FOLDER, RESOLVE, folder_error, open_beneath, open_folder};
use super::outcome::unchanged;
use super::path::{RESERVED_PREFIX, WorkspacePath};
use super::visit::{Descend, Seen, visit};
use crate::Error as SetupError;
use crate::limits::FILE_LEFTOVERS_VISITED_MAX;
use crate::words::{refused, shown};
use countersign_core::source::Error;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether two names that differ only in case are two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    CaseSensitive,
    /// The file system ignores case, or could not be probed. Then every path must be spelled exactly as on disk.
    CaseInsensitive,
}

pub(crate) struct Workspace {
    root: OwnedFd,
    spelling: Spelling,
    disk: Disk,
    commits: Mutex<()>,
}

/// Whether the folder can make us wait for longer than a local disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Local,
    /// On a network, in another process, or unknown.
    Elsewhere,
}

/// ext4, XFS, Btrfs, F2FS, ZFS, tmpfs and overlayfs, by their numbers in `statfs`.
const LOCAL_DISKS: [u32; 7] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630];

/// Up to this size, a file that is at hand is read on the caller's thread, and a write of a new file is prepared there.
pub(crate) const AT_HAND_BYTES_MAX: u64 = 64 * 1024;

/// How far a path exists: the last folder that exists, and the names of the folders that do not.
pub(crate) struct Reached<'p> {
    pub(crate) folder: OwnedFd,
    pub(crate) missing: Vec<&'p str>,
}

impl Workspace {
    pub(crate) fn open(path: &Path) -> Result<Self, SetupError> {
        let root = open_folder(path)?;
        open_beneath(&root, ".", FOLDER, Mode::empty()).map_err(|errno| SetupError::NoSafeOpen { message: errno.to_string() })?;
        remove_leftovers(&root);
        let spelling = probe_spelling(&root);
        let disk = probe_disk(&root);
        Ok(Self { root, spelling, disk, commits: Mutex::new(()) })
    }

    pub(crate) const fn spelling(&self) -> Spelling {
        self.spelling
    }

    pub(crate) const fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Whether a read takes microseconds, less than handing it to another thread: a small file on a local disk, in the root's own file
    /// system, whose names the kernel has cached. The content may still have to come from the disk, as a database page may.
    pub(crate) fn is_at_hand(&self, path: &WorkspacePath) -> bool {
        let stat = self.open_at_hand(path.as_str()).and_then(rustix::fs::fstat);
        stat.is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && u64::try_from(stat.st_size).is_ok_and(|bytes| bytes <= AT_HAND_BYTES_MAX)
        })
    }

    /// Whether nothing exists at `path`, and this can be seen as quickly, because its folder is at hand. The folder's entries may still
    /// have to come from the disk.
    pub(crate) fn is_free_at_hand(&self, path: &WorkspacePath) -> bool {
        let folder = path.as_str().rsplit_once('/').map_or(".", |(folder, _)| folder);
        let found = self.open_at_hand(folder);
        found.is_ok_and(|folder| matches!(rustix::fs::statat(folder, path.name(), AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)))
    }

    fn open_at_hand(&self, path: &str) -> Result<OwnedFd, Errno> {
        if self.disk == Disk::Elsewhere || self.spelling == Spelling::CaseInsensitive {
            return Err(Errno::AGAIN);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = RESOLVE | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
        rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)
    }

    /// The lock that is held from the last look at a file to its change, so that two calls see each other's work.
    pub(crate) fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Walks down `names`, which are folders of `path`, as far as they exist.
    pub(crate) fn reach<'p>(&self, path: &'p WorkspacePath, names: Vec<&'p str>) -> Result<Reached<'p>, Error> {
        let mut folder = self.root.try_clone().map_err(|error| super::outcome::unchanged_io(&error, path.as_str()))?;
        for (position, name) in names.iter().enumerate() {
            self.check_spelling(&folder, name, path)?;
            folder = match open_beneath(&folder, name, FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(Reached { folder, missing: names[position..].to_vec() }),
                Err(errno) => return Err(unchanged(errno, path.as_str())),
            };
        }
        Ok(Reached { folder, missing: Vec::new() })
    }

    /// Where the file system ignores case, only the spelling on disk is accepted, so that one file has one path.
    pub(crate) fn check_spelling(&self, folder: &OwnedFd, name: &str, path: &WorkspacePath) -> Result<(), Error> {
        match self.spelling {
            Spelling::CaseSensitive => return Ok(()),
            Spelling::CaseInsensitive => {}
        }
        let folded = name.to_lowercase();
        let mut other = None;
        for entry in Dir::read_from(folder).map_err(|errno| unchanged(errno, path.as_str()))? {
            let entry = entry.map_err(|errno| unchanged(errno, path.as_str()))?;
            match entry.file_name().to_str() {
                Ok(found) if found == name => return Ok(()),
                Ok(found) if found.to_lowercase() == folded => other = Some(shown(found)),
                Ok(_) | Err(_) => {}
            }
        }
        // The file system may ignore more than case. If it finds a file under a name that is not listed, that name is another spelling.
        let is_there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        match other {
            Some(spelling) => Err(refused("path_not_allowed", format!("`{}` is spelled `{spelling}` on disk", shown(path.as_str())))),
            None if is_there => Err(refused("path_not_allowed", format!("`{}` is spelled otherwise on disk", shown(path.as_str())))),
            None => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) const fn pretend(&mut self, spelling: Spelling) {
        self.spelling = spelling;
    }
}

fn probe_disk(root: &OwnedFd) -> Disk {
    let kind = rustix::fs::fstatfs(root).ok().and_then(|found| u32::try_from(found.f_type).ok());
    if kind.is_some_and(|kind| LOCAL_DISKS.contains(&kind)) { Disk::Local } else { Disk::Elsewhere }
}

/// Creates a configured folder that only we can read, if there is none.
pub(crate) fn make_folder(path: &Path) -> Result<(), SetupError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| folder_error(path, &error))
}

pub(crate) fn check_apart(one: &Path, other: &Path) -> Result<(), SetupError> {
    let real = |path: &Path| path.canonicalize().map_err(|error| folder_error(path, &error));
    let (one, other) = (real(one)?, real(other)?);
    if one.starts_with(&other) || other.starts_with(&one) {
        return Err(SetupError::FoldersOverlap { one: one.display().to_string(), other: other.display().to_string() });
    }
    Ok(())
}

/// Removes files that a crash left half-written: regular files with our reserved prefix, except the id, and nothing else.
pub(crate) fn remove_leftovers(folder: &OwnedFd) {
    let mut removed = 0_usize;
    let visited = visit(folder, "", FILE_LEFTOVERS_VISITED_MAX, |seen: &Seen<'_>| {
        let is_ours = seen.kind == FileType::RegularFile && seen.name.to_bytes().starts_with(RESERVED_PREFIX.as_bytes());
        let is_id = seen.path == Some(ID_FILE);
        if is_ours && !is_id && rustix::fs::unlinkat(seen.folder, seen.name, AtFlags::empty()).is_ok() {
            removed += 1;
        }
        Descend::Into
    });
    match visited {
        Ok(visited) if visited < FILE_LEFTOVERS_VISITED_MAX => tracing::debug!(removed, visited, "looked for half-written files"),
        Ok(visited) => tracing::warn!(removed, visited, "the folder is too large to look everywhere for half-written files"),
        Err(error) => tracing::warn!(removed, %error, "could not look for half-written files"),
    }
}

/// Probes the file system by writing a file. If that is not possible, it counts as case-insensitive, which accepts fewer spellings.
fn probe_spelling(root: &OwnedFd) -> Spelling {
    let name = format!("{RESERVED_PREFIX}-probe-{}", std::process::id());
    let exists = |name: &str| rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    if open_beneath(root, &name, flags, Mode::RUSR | Mode::WUSR).is_err() {
        return Spelling::CaseInsensitive;
    }
    let other_spelling_found = exists(&name.to_uppercase());
    let still_there = exists(&name);
    // If the probe stays behind, the next start removes it as a leftover.
    let _ = rustix::fs::unlinkat(root, &name, AtFlags::empty());
    if still_there && !other_spelling_found { Spelling::CaseSensitive } else { Spelling::CaseInsensitive }
}

/// The same for an existing workspace, without writing to it: looks up its id file in another spelling. `None` if no server has worked in
/// this folder yet.
pub fn spelling_of(folder: &Path) -> Option<Spelling> {
    let root = open_folder(folder).ok()?;
    let find = |name: &str| rustix::fs::statat(&root, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (stat.st_dev, stat.st_ino));
    let own = find(ID_FILE).ok()?;
    Some(if find(&ID_FILE.to_uppercase()) == Ok(own) { Spelling::CaseInsensitive } else { Spelling::CaseSensitive })
}
