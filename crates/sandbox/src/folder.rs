//! The folder of the host that a program may write to: how much is in it, and whose it is.
//!
//! SECURITY: the program may change the folder while it is walked. No link is followed, and each folder is entered by a descriptor of the one
//! above it, so the walk never leaves it.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// How deep folders may lie in each other. Deeper ones count as too much.
const DEPTH_MAX: usize = 64;

/// What is in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The space that its files take on the disk.
    pub bytes: u64,
    /// Its files, folders and links.
    pub entries: u64,
}

/// Measures a folder. Counting stops beyond `most`, at folders that lie too deep, and at those that their owner has shut: all these count as
/// more than any limit.
pub fn measure(folder: &Path, most: Held) -> io::Result<Held> {
    let mut held = Held::default();
    let mut add = |_: BorrowedFd<'_>, _: &CStr, found: &Stat| {
        let bytes = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
        // A file with several names counts once.
        held.bytes = held.bytes.saturating_add(bytes / found.st_nlink.max(1));
        held.entries += 1;
        if held.bytes > most.bytes || held.entries > most.entries { Err(Errno::DQUOT) } else { Ok(()) }
    };
    match open(CWD, folder).and_then(|folder| walk(folder, 0, &mut add)) {
        Ok(()) => Ok(held),
        Err(Errno::DQUOT | Errno::ACCESS) => Ok(Held { bytes: u64::MAX, entries: u64::MAX }),
        Err(error) => Err(error.into()),
    }
}

/// Makes everything in a folder, and the folder, belong to a uid.
pub(crate) fn give(folder: &Path, uid: u32) -> io::Result<()> {
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)));
    let mut give =
        |folder: BorrowedFd<'_>, name: &CStr, _: &Stat| match rustix::fs::chownat(folder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        };
    let folder = open(CWD, folder)?;
    rustix::fs::fchown(&folder, uid, gid)?;
    Ok(walk(folder, 0, &mut give)?)
}

fn open<P: rustix::path::Arg>(from: BorrowedFd<'_>, path: P) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(from, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn walk(folder: OwnedFd, depth: usize, visit: &mut impl FnMut(BorrowedFd<'_>, &CStr, &Stat) -> Result<(), Errno>) -> Result<(), Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::DQUOT);
    }
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // What is gone meanwhile is not counted.
        let found = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        visit(folder.as_fd(), name, &found)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            match open(folder.as_fd(), name) {
                Ok(inner) => walk(inner, depth + 1, visit)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Held = Held { bytes: 1 << 20, entries: 10 };

    #[test]
    fn what_is_in_a_folder_is_counted_and_no_link_leads_out_of_it() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("own");
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::write(all.path().join("large"), vec![1; 4 << 20]).unwrap();
        std::fs::write(folder.join("a/b/small"), vec![1; 64 << 10]).unwrap();
        std::os::unix::fs::symlink(all.path(), folder.join("out")).unwrap();
        std::os::unix::fs::symlink(all.path().join("large"), folder.join("file")).unwrap();
        std::fs::hard_link(folder.join("a/b/small"), folder.join("again")).unwrap();
        let held = measure(&folder, MOST).unwrap();
        assert_eq!(held.entries, 6);
        assert!((64 << 10..256 << 10).contains(&held.bytes), "{held:?}");
        assert!(measure(&folder.join("out"), MOST).is_err(), "a link is no folder");
    }

    #[test]
    fn too_many_too_large_and_too_deep_are_more_than_any_limit() {
        let beyond = Held { bytes: u64::MAX, entries: u64::MAX };
        let many = tempfile::tempdir().unwrap();
        for number in 0..=MOST.entries {
            std::fs::write(many.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(measure(many.path(), MOST).unwrap(), beyond);
        let large = tempfile::tempdir().unwrap();
        std::fs::write(large.path().join("file"), vec![1; 2 << 20]).unwrap();
        assert_eq!(measure(large.path(), MOST).unwrap(), beyond);
        let deep = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(deep.path().join("a/".repeat(DEPTH_MAX + 2))).unwrap();
        assert_eq!(measure(deep.path(), Held { entries: 1_000, ..MOST }).unwrap(), beyond);
    }
}
