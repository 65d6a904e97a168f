//! The stage: the files a program left behind. It is read only after every process of the program is dead.
//!
//! A stage is read whole or refused whole. SECURITY: reading it follows no link and cannot block. Every entry is opened beneath the stage's
//! own root, without following links, and inspected only through that descriptor.

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How deep directories may be nested.
pub const DEPTH_MAX: usize = 32;
/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;

/// The stage of one run. Dropping it frees its memory.
#[derive(Debug)]
pub struct Stage {
    root: OwnedFd,
    files_max: u64,
    bytes_max: u64,
}

/// One file or directory of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the stage, with `/` between the names.
    pub path: String,
    pub kind: Kind,
    /// The permission bits only.
    pub mode: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File { bytes: u64 },
}

/// Why a stage is refused. One bad entry refuses the whole stage.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("stage entry `{path}` is a {kind}: only files and directories are taken")]
    OddKind { path: String, kind: &'static str },
    #[error("stage entry `{path}` has {links} names: a file with a second name is not taken")]
    SeveralNames { path: String, links: u64 },
    #[error("stage entry `{path}` carries a setuid, setgid or sticky bit")]
    SetId { path: String },
    #[error("stage entry `{path}` has a name that is not taken: {why}")]
    OddName { path: String, why: &'static str },
    #[error("stage entry `{path}` lies deeper than {DEPTH_MAX} directories")]
    TooDeep { path: String },
    #[error("the stage holds more than the {max} {what} it was given")]
    TooMuch { what: &'static str, max: u64 },
    #[error("stage entry `{path}` cannot be read by its owner")]
    Unreadable { path: String },
    #[error("stage entry `{path}` could not be read: {why}")]
    Io { path: String, why: String },
}

impl Stage {
    pub(crate) fn new(root: OwnedFd, files_max: u64, bytes_max: u64) -> Self {
        Self { root, files_max, bytes_max }
    }

    /// Every entry of the stage, each directory before its contents, names in byte order.
    pub fn walk(&self) -> Result<Vec<Entry>, Error> {
        let mut walk = Walk { entries: vec![], bytes: 0, stage: self };
        walk.directory(self.root.as_fd(), "", 0)?;
        Ok(walk.entries)
    }

    /// The bytes of one file of the stage.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let (file, found) = self.open(self.root.as_fd(), path, path)?;
        let entry = check(path, &found)?;
        let Kind::File { bytes } = entry.kind else {
            return Err(Error::OddKind { path: path.to_owned(), kind: "directory" });
        };
        if bytes > self.bytes_max {
            // A sparse file can be larger than the stage that holds it.
            return Err(Error::TooMuch { what: "bytes", max: self.bytes_max });
        }
        let mut all = vec![];
        let io = |error: std::io::Error| Error::Io { path: path.to_owned(), why: error.to_string() };
        File::from(file).take(self.bytes_max).read_to_end(&mut all).map_err(io)?;
        Ok(all)
    }

    fn open(&self, from: BorrowedFd<'_>, name: &str, path: &str) -> Result<(OwnedFd, Stat), Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let failed = |error: Errno| match error {
            Errno::ACCESS => Error::Unreadable { path: shown(path) },
            error => Error::Io { path: shown(path), why: error.to_string() },
        };
        // The entry is inspected before it is opened: opening a device or a fifo may already have an effect.
        let handle = rustix::fs::openat2(
            from,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            resolve - ResolveFlags::NO_SYMLINKS,
        );
        let handle = handle.map_err(failed)?;
        let found = rustix::fs::fstat(&handle).map_err(failed)?;
        check(path, &found)?;
        let file = rustix::fs::openat2(from, name, flags, Mode::empty(), resolve).map_err(failed)?;
        let found = rustix::fs::fstat(&file).map_err(failed)?;
        Ok((file, found))
    }
}

struct Walk<'a> {
    entries: Vec<Entry>,
    bytes: u64,
    stage: &'a Stage,
}

impl Walk<'_> {
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &str, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::TooDeep { path: shown(path) });
        }
        for name in self.names(directory, path)? {
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            if path.len() > PATH_BYTES_MAX {
                return Err(Error::OddName { path: shown(&path), why: "the whole path is too long" });
            }
            let (file, found) = self.stage.open(directory, &name, &path)?;
            let entry = check(&path, &found)?;
            let kind = entry.kind;
            self.entries.push(entry);
            match kind {
                Kind::Directory => self.directory(file.as_fd(), &path, depth + 1)?,
                Kind::File { bytes } => {
                    self.bytes = self.bytes.saturating_add(bytes);
                    if self.bytes > self.stage.bytes_max {
                        return Err(Error::TooMuch { what: "bytes", max: self.stage.bytes_max });
                    }
                }
            }
        }
        Ok(())
    }

    fn names(&self, directory: BorrowedFd<'_>, path: &str) -> Result<Vec<String>, Error> {
        let io = |error: Errno| Error::Io { path: shown(path), why: error.to_string() };
        let mut names = vec![];
        for entry in Dir::read_from(directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            names.push(legal(name, path)?);
            if (names.len() + self.entries.len()) as u64 > self.stage.files_max {
                return Err(Error::TooMuch { what: "files", max: self.stage.files_max });
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Accepts a name that is UTF-8 without characters that control a terminal. The name is kept exactly: never folded, trimmed or merged with
/// another spelling.
fn legal(name: &[u8], directory: &str) -> Result<String, Error> {
    let odd = |why| {
        let path = format!("{directory}/{}", String::from_utf8_lossy(name));
        Err(Error::OddName { path: shown(&path), why })
    };
    match std::str::from_utf8(name) {
        Err(_) => odd("it is not UTF-8"),
        Ok(text) if text.len() > NAME_BYTES_MAX => odd("it is too long"),
        Ok(text) if crate::text::neutralise(name) != text || text.contains(['\n', '\t', '\\']) => {
            odd("it has a control character or a backslash")
        }
        Ok(text) => Ok(text.to_owned()),
    }
}

/// Makes a path safe to show. A program chooses its file names, so they are displayed but never interpreted.
fn shown(path: &str) -> String {
    let path = path.trim_start_matches('/');
    crate::text::neutralise(path.as_bytes()).replace('\n', "\\n").chars().take(200).collect()
}

fn check(exact: &str, found: &Stat) -> Result<Entry, Error> {
    let path = || shown(exact);
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File { bytes: u64::try_from(found.st_size).unwrap_or(u64::MAX) },
        FileType::Directory => Kind::Directory,
        FileType::Symlink => return Err(Error::OddKind { path: path(), kind: "symbolic link" }),
        FileType::Fifo => return Err(Error::OddKind { path: path(), kind: "fifo" }),
        FileType::Socket => return Err(Error::OddKind { path: path(), kind: "socket" }),
        FileType::CharacterDevice | FileType::BlockDevice => return Err(Error::OddKind { path: path(), kind: "device" }),
        FileType::Unknown => return Err(Error::OddKind { path: path(), kind: "thing of unknown kind" }),
    };
    let mode = found.st_mode & 0o7777;
    if mode & 0o7000 != 0 {
        return Err(Error::SetId { path: path() });
    }
    let (needed, links) = match kind {
        Kind::Directory => (0o500, 1),
        Kind::File { .. } => (0o400, u64::from(found.st_nlink as u32)),
    };
    if links != 1 {
        return Err(Error::SeveralNames { path: path(), links });
    }
    // Root could read the entry anyway. Whether an entry is accepted must not depend on the server's user.
    if mode & needed != needed {
        return Err(Error::Unreadable { path: path() });
    }
    Ok(Entry { path: exact.to_owned(), kind, mode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::AtFlags;

    /// Deeper than a program can go inside a jail.
    const ABYSS: usize = 100_000;

    fn open(folder: &OwnedFd, name: &str) -> OwnedFd {
        rustix::fs::openat(folder, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn out_hostile_depth_ends_the_walk_and_not_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let top = OwnedFd::from(File::open(folder.path()).unwrap());
        let mut at = top.try_clone().unwrap();
        for _ in 0..ABYSS {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open(&at, "d");
        }
        let stage = Stage::new(top, u64::MAX, u64::MAX);
        assert_eq!(stage.walk(), Err(Error::TooDeep { path: vec!["d"; DEPTH_MAX + 1].join("/") }));
        // Removed from the bottom up, because a removal from the top recurses as deep as the directories are nested.
        for _ in 0..ABYSS {
            at = open(&at, "..");
            rustix::fs::unlinkat(&at, "d", AtFlags::REMOVEDIR).unwrap();
        }
    }
}
