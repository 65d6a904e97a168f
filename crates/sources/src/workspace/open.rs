//! How a path in the workspace is opened: relative to a descriptor of the root that is held from the start, beneath it, and through no link of
//! any kind. Changes are made relative to the descriptor of the folder that was reached, never by path. So an attacker who swaps a folder for
//! a link meanwhile redirects nothing.

use crate::Error as SetupError;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// The identity of a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
}

/// The identity of the file at a path that passes no link and no other mount.
pub(crate) fn identity_on_one_mount(root: &OwnedFd, path: &str) -> Result<Identity, Errno> {
    identity(root, path, RESOLVE | ResolveFlags::NO_XDEV, OFlags::NOFOLLOW)
}

/// The identity of the file at a path, after following links and mounts within the workspace.
pub(crate) fn identity_behind_links(root: &OwnedFd, path: &str) -> Result<Identity, Errno> {
    identity(root, path, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS, OFlags::empty())
}

fn identity(root: &OwnedFd, path: &str, resolve: ResolveFlags, more: OFlags) -> Result<Identity, Errno> {
    identity_of(&open_resolved(root, path, OFlags::PATH | more, Mode::empty(), resolve)?)
}

/// The real path in the workspace, after following every link; `None` if it leads out of the workspace. For a file that does not exist yet,
/// the path at which it would be created.
pub(crate) fn real_path(root: &OwnedFd, path: &str) -> Result<Option<String>, Errno> {
    let place = |file: &OwnedFd| rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new());
    let mut end = path.len();
    loop {
        let (begin, rest) = path.split_at(end);
        let begin = if begin.is_empty() { "." } else { begin };
        match open_resolved(root, begin, OFlags::PATH, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS) {
            Ok(found) => {
                let (found, root) = (place(&found)?, place(root)?);
                let below = found.to_bytes().strip_prefix(root.to_bytes()).and_then(|below| std::str::from_utf8(below).ok());
                return Ok(below.map(|below| format!("{below}{rest}").trim_start_matches('/').to_owned()));
            }
            Err(Errno::NOENT | Errno::NOTDIR) if end > 0 => end = path[..end].rfind('/').unwrap_or(0),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

/// The identity of an open file.
pub(crate) fn identity_of(file: &OwnedFd) -> Result<Identity, Errno> {
    rustix::fs::fstat(file).map(|stat| Identity { device: stat.st_dev, number: stat.st_ino })
}

/// Stay beneath the folder, and follow no link of any kind.
pub(super) const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// How folders are opened: to read their entries and to make changes in them.
pub(crate) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// SECURITY: the only function that opens a name in the workspace. For every name, the kernel refuses links and paths that lead out.
pub(crate) fn open_beneath(folder: impl AsFd, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    open_resolved(folder, name, flags, mode, RESOLVE)
}

fn open_resolved(folder: impl AsFd, name: &str, flags: OFlags, mode: Mode, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    const TRIES: usize = 32;
    for _ in 0..TRIES {
        match rustix::fs::openat2(&folder, name, flags | OFlags::CLOEXEC, mode, resolve) {
            // The tree changed during the walk, or a signal arrived: the kernel asks for another try.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Makes names that were added to or removed from a folder survive a power cut.
pub(crate) fn sync_folder(folder: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::fsync(folder) {
        // File systems that cannot sync folders answer this; nothing more can be done.
        Err(Errno::INVAL) => Ok(()),
        result => result,
    }
}

/// Opens a configured folder. Links are followed here, because the operator chose this path.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, SetupError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| folder_error(path, &errno.into()))
}

pub(crate) fn folder_error(path: &Path, error: &std::io::Error) -> SetupError {
    SetupError::Folder { path: path.display().to_string(), message: error.to_string() }
}
