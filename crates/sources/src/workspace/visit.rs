//! Walks a folder without following links and without recursion, so that neither loops nor depth can stop it.

use super::open::{FOLDER, open_beneath};
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// One entry that the walk has found.
pub(crate) struct Seen<'a> {
    /// The folder that contains it.
    pub(crate) folder: &'a OwnedFd,
    pub(crate) name: &'a CStr,
    /// Relative to the workspace; `None` if a name in it is not UTF-8.
    pub(crate) path: Option<&'a str>,
    pub(crate) kind: FileType,
    pub(crate) bytes: u64,
}

/// Whether the walk goes into the folder it has just shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descend {
    Into,
    Past,
}

/// Shows every entry below `start` (empty for the root), up to `visited_max` entries. Returns how many it has shown. An inner folder that
/// cannot be read, because it has vanished or is a link by now, is skipped.
pub(crate) fn visit(root: &OwnedFd, start: &str, visited_max: usize, mut each: impl FnMut(&Seen<'_>) -> Descend) -> Result<usize, Errno> {
    let mut visited = 0;
    let mut ahead = vec![start.to_owned()];
    while let Some(path) = ahead.pop() {
        let folder = match open_beneath(root, if path.is_empty() { "." } else { &path }, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(errno) if path == start => return Err(errno),
            Err(_) => continue,
        };
        for entry in Dir::read_from(&folder)? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) if path == start => return Err(errno),
                Err(_) => break,
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if visited == visited_max {
                return Ok(visited);
            }
            visited += 1;
            let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let below = name.to_str().ok().map(|name| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") });
            let seen = Seen { folder: &folder, name, path: below.as_deref(), kind, bytes: u64::try_from(stat.st_size).unwrap_or(0) };
            let descend = each(&seen);
            match below {
                Some(below) if kind == FileType::Directory && descend == Descend::Into => ahead.push(below),
                Some(_) | None => {}
            }
        }
    }
    Ok(visited)
}
