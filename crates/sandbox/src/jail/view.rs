//! Shows a part of a folder. What is left out is not covered but was never there: whoever replaces it while the program runs, as every
//! commit replaces a file, would take a cover away with it.

use super::mounts::{Tree, make_parents, make_target, place};
use super::{Failure, at};
use crate::error::Step;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, UnmountFlags, open_tree, unmount};
use std::os::fd::{AsFd, OwnedFd};

/// Where the whole folder is while it is taken apart.
const WHOLE: &str = ".whole";

/// SECURITY: a part is reached from the folder's own root, through no link and no other mount, so that whoever moves things about
/// meanwhile shows at worst what lies under a name that is to be shown.
const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);

/// Puts these parts of the folder where the folder would be. Only what is mounted can be taken apart, so it is, out of the way.
pub(super) fn show(root: &OwnedFd, tree: &Tree, only: &[String]) -> Result<(), Failure> {
    make_target(root, WHOLE, FileType::Directory)?;
    place(root, &tree.fd, WHOLE)?;
    for part in only {
        show_one(root, tree, part)?;
    }
    // The root is read-only later, and whatever is mounted stays: this must be gone before the program comes.
    let failed = |error: Errno| Failure::new(Step::Mounts, format_args!("leaving out what is not shown of `/{}`", tree.target), error);
    rustix::process::fchdir(root).map_err(failed)?;
    unmount(WHOLE, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).map_err(failed)?;
    rustix::fs::unlinkat(root, WHOLE, AtFlags::REMOVEDIR).map_err(failed)
}

fn show_one(root: &OwnedFd, tree: &Tree, part: &str) -> Result<(), Failure> {
    let failed = |error: Errno| Failure::new(Step::Mounts, format_args!("showing `{part}` of `/{}`", tree.target), error);
    let found = match rustix::fs::openat2(&tree.fd, part, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), RESOLVE) {
        Ok(found) => found,
        // It is not there, or cannot be read by who the program is.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::ACCESS | Errno::NAMETOOLONG) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let target = format!("{}/{part}", tree.target);
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).map_err(failed)?.st_mode);
    match kind {
        FileType::Directory | FileType::RegularFile => {
            // With the mounts inside it: without them, what they cover would come to light.
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
            let cut = open_tree(&found, "", flags | OpenTreeFlags::AT_EMPTY_PATH).map_err(failed)?;
            make_target(root, &target, kind)?;
            place(root, &cut, &target)
        }
        FileType::Symlink => {
            let text = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(failed)?;
            make_parents(root.as_fd(), &target)?;
            rustix::fs::symlinkat(text, root, &target).map_err(at(Step::Mounts, format_args!("making `/{target}`")))
        }
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => Ok(()),
    }
}
