//! A staged file: written beside its target under a reserved name, and renamed onto the target once it is whole and on disk.

use super::open::open_beneath;
use super::outcome::{unchanged, unchanged_io};
use super::path::{RESERVED_PREFIX, WorkspacePath};
use countersign_core::source::{CallContext, Error};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

/// The reserved name for the files of one attempt. The id of an invocation is unpredictable, and no two attempts have the same name.
pub(crate) fn temporary_name(context: &CallContext) -> String {
    format!("{RESERVED_PREFIX}-{}-{}", context.invocation, context.attempt)
}

/// A file that is not in place yet. If it is dropped before that, it is removed.
pub(crate) struct Staged<'a> {
    folder: &'a OwnedFd,
    temporary: &'a str,
    path: &'a WorkspacePath,
    file: File,
}

impl<'a> Staged<'a> {
    /// Creates an empty file in `folder`. `path` is used in error messages.
    pub(crate) fn create(folder: &'a OwnedFd, temporary: &'a str, mode: Mode, path: &'a WorkspacePath) -> Result<Self, Error> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let file = open_beneath(folder, temporary, flags, mode).map_err(|errno| unchanged(errno, path.as_str()))?;
        Ok(Self { folder, temporary, path, file: file.into() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|error| unchanged_io(&error, self.path.as_str()))
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        rustix::fs::fchmod(&self.file, mode).map_err(|errno| unchanged(errno, self.path.as_str()))
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        rustix::fs::fsync(&self.file).map_err(|errno| unchanged(errno, self.path.as_str()))
    }

    /// Puts the file in place as `name`, replacing a file that is there.
    pub(crate) fn replace(self, name: &str) -> Result<(), Errno> {
        rustix::fs::renameat(self.folder, self.temporary, self.folder, name)
    }

    /// Puts the file in place as `name`; fails with `EXIST` if something is there by now.
    pub(crate) fn appear(self, name: &str) -> Result<(), Errno> {
        match rustix::fs::renameat_with(self.folder, self.temporary, self.folder, name, RenameFlags::NOREPLACE) {
            // Some network file systems do not support this rename. A hard link, which fails if the name exists, does the same.
            Err(Errno::INVAL | Errno::NOSYS) => self.link(name),
            result => result,
        }
    }

    fn link(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::linkat(self.folder, self.temporary, self.folder, name, AtFlags::empty())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // The temporary name is gone if the file was renamed; it is still there if the file was linked or given up.
        let _ = rustix::fs::unlinkat(self.folder, self.temporary, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::open::open_folder;

    #[test]
    fn every_way_into_place_leaves_one_file_with_one_name() {
        type Place = fn(Staged<'_>, &str) -> Result<(), Errno>;
        let ways: [(Place, Result<(), Errno>); 3] = [
            (|staged, name| staged.replace(name), Ok(())),
            (|staged, name| staged.appear(name), Err(Errno::EXIST)),
            (|staged, name| staged.link(name), Err(Errno::EXIST)),
        ];
        for (place, onto_another) in ways {
            let scratch = tempfile::tempdir().unwrap();
            let folder = open_folder(scratch.path()).unwrap();
            let path = WorkspacePath::parse("a").unwrap();
            for (content, expected) in [("one", Ok(())), ("two", onto_another)] {
                let mut staged = Staged::create(&folder, ".countersign-t", Mode::RUSR | Mode::WUSR, &path).unwrap();
                staged.write(content.as_bytes()).unwrap();
                assert_eq!(place(staged, "a"), expected);
            }
            let names: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["a"]);
            let content = std::fs::read_to_string(scratch.path().join("a")).unwrap();
            assert_eq!(content, if onto_another.is_ok() { "two" } else { "one" });
        }
    }

    #[test]
    fn a_reserved_name_that_is_taken_is_not_written_through() {
        let scratch = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), scratch.path().join(".countersign-t")).unwrap();
        let folder = open_folder(scratch.path()).unwrap();
        let path = WorkspacePath::parse("a").unwrap();
        assert!(Staged::create(&folder, ".countersign-t", Mode::RUSR | Mode::WUSR, &path).is_err());
        assert_eq!(std::fs::metadata(outside.path()).unwrap().len(), 0);
    }
}
