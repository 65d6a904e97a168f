//! Shows only some entries of a folder. The other entries are never mounted; they are not hidden behind another mount. A covering mount
//! would disappear when somebody on the host replaces the covered file while the program runs, and every commit replaces files.

use super::target::{make_parents, make_target, place};
use super::{Failure, at};
use crate::error::Step;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, UnmountFlags, open_tree, unmount};
use std::os::fd::{AsFd, OwnedFd};

/// Where the whole folder is mounted temporarily while its entries are taken out.
const WHOLE: &str = ".whole";

/// SECURITY: an entry is resolved beneath the folder's own root, through no link and no other mount. So somebody who moves files around
/// meanwhile can at most expose what lies under a name that was to be shown anyway.
const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);

/// Mounts these entries where the folder would be. The folder is first mounted at `WHOLE`, because only a mounted tree can be taken apart.
pub(super) fn show(root: &OwnedFd, tree: &OwnedFd, target: &str, only: &[String]) -> Result<(), Failure> {
    make_target(root, WHOLE, FileType::Directory)?;
    place(root, tree, WHOLE)?;
    for part in only {
        show_one(root, tree, target, part)?;
    }
    // The root becomes read-only later and its mounts stay, so `WHOLE` must be gone before the program runs.
    let failed = |error: Errno| Failure::new(Step::Mounts, format_args!("leaving out what is not shown of `/{target}`"), error);
    rustix::process::fchdir(root).map_err(failed)?;
    unmount(WHOLE, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).map_err(failed)?;
    rustix::fs::unlinkat(root, WHOLE, AtFlags::REMOVEDIR).map_err(failed)
}

fn show_one(root: &OwnedFd, tree: &OwnedFd, target: &str, part: &str) -> Result<(), Failure> {
    let failed = |error: Errno| Failure::new(Step::Mounts, format_args!("showing `{part}` of `/{target}`"), error);
    let found = match rustix::fs::openat2(tree, part, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), RESOLVE) {
        Ok(found) => found,
        // The entry does not exist, or the program's uid cannot read it.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::ACCESS | Errno::NAMETOOLONG) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let target = format!("{target}/{part}");
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).map_err(failed)?.st_mode);
    match kind {
        FileType::Directory | FileType::RegularFile => {
            // The clone includes the mounts inside the entry: without them, the files that they cover would become visible.
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
