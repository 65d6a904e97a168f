//! A file that appears whole or not at all: it is written under a temporary name and then renamed. If the command gives up, the temporary
//! file is removed.

use crate::shared::*;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that is being written under a temporary name.
pub(super) struct Part {
    part: PathBuf,
    whole: PathBuf,
    file: File,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Unfinished,
    Kept,
}

impl Part {
    /// Creates the temporary file. Only its owner can read it, because it may hold secrets.
    pub(super) fn create(whole: &Path) -> Result<Self, Failure> {
        let mut name = whole.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        let _leftover = std::fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(|error| Failure::file(&part, &error))?;
        Ok(Self { part, whole: whole.to_owned(), file, fate: Fate::Unfinished })
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file to disk and renames it to its final name.
    pub(super) fn keep(mut self) -> Result<(), Failure> {
        self.file.sync_all().and_then(|()| std::fs::rename(&self.part, &self.whole)).map_err(|error| Failure::file(&self.whole, &error))?;
        self.fate = Fate::Kept;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.fate == Fate::Unfinished {
            let _gone = std::fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("export.jsonl");
        let names = || std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();

        let given_up = Part::create(&whole).unwrap();
        given_up.file().write_all(b"half").unwrap();
        assert_eq!(names(), ["export.jsonl.part"]);
        drop(given_up);
        assert!(names().is_empty());

        let kept = Part::create(&whole).unwrap();
        kept.file().write_all(b"whole").unwrap();
        kept.keep().unwrap();
        assert_eq!(names(), ["export.jsonl"]);
        assert_eq!(std::fs::read(&whole).unwrap(), b"whole");
    }
}
