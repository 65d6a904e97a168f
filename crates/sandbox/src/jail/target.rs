//! The place in the jail at which a tree is mounted.

use super::{Failure, at};
use crate::error::Step;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{MoveMountFlags, move_mount};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Mounts a tree at its target, which must exist.
pub(super) fn place(root: &OwnedFd, tree: &OwnedFd, target: &str) -> Result<(), Failure> {
    attach(tree, root.as_fd(), target).map_err(at(Step::Mounts, format_args!("mounting `/{target}`")))
}

pub(super) fn attach(tree: &OwnedFd, at: BorrowedFd<'_>, path: &str) -> Result<(), rustix::io::Errno> {
    move_mount(tree.as_fd(), "", at, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

pub(super) fn make_target(root: &OwnedFd, target: &str, kind: FileType) -> Result<(), Failure> {
    make_parents(root.as_fd(), target)?;
    let made = if kind == FileType::Directory {
        rustix::fs::mkdirat(root, target, Mode::from_raw_mode(0o755))
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
        rustix::fs::openat(root, target, flags, Mode::from_raw_mode(0o444)).map(drop)
    };
    match made {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(Failure::new(Step::Mounts, format_args!("making `/{target}`"), error)),
    }
}

pub(super) fn make_parents(root: BorrowedFd<'_>, path: &str) -> Result<(), Failure> {
    for (end, _) in path.match_indices('/') {
        match rustix::fs::mkdirat(root, &path[..end], Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Failure::new(Step::Mounts, format_args!("making `/{}`", &path[..end]), error)),
        }
    }
    Ok(())
}
