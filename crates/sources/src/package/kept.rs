//! Copies of the code that actions had, stored by digest, so that a reviewer sees what changed; and who installed each package. If the
//! copies take too much room, the oldest are removed first.

use super::folder::{self, PackageFile, PackageFiles};
use super::loaded::Loaded;
use crate::limits::PACKAGE_CODE_KEPT_BYTES_MAX;
use crate::workspace::diff::{Diff, Room};
use countersign_core::changed_file::FileChange;
use countersign_core::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

/// The folder of the copies, inside the packages folder.
pub(super) const FOLDER: &str = ".kept";

pub(super) struct Kept {
    folder: PathBuf,
}

/// Who installed a package, and what they installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub by: String,
    pub at: Timestamp,
    /// Covers all files of the package.
    pub sha256: Digest,
}

/// How one file of an action's code changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeChange {
    /// Relative to the action's own folder.
    pub path: String,
    pub change: FileChange,
    /// A diff by line; `None` if one of the two versions is not text.
    pub diff: Option<String>,
    pub added_lines: usize,
    pub removed_lines: usize,
    /// The diff was longer than the part shown here.
    pub is_truncated: bool,
}

impl Kept {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps a copy of the code of each action and of the MCP server. If a copy cannot be written, a reviewer later has no diff; nothing
    /// else depends on it.
    pub(super) fn keep(&self, loaded: &Loaded) {
        let actions = loaded.actions.iter().map(|action| (action.digest, &action.files));
        for (digest, files) in actions.chain(loaded.server.iter().map(|server| (server.digest, &server.files))) {
            if let Err(error) = self.keep_files(digest, files) {
                tracing::warn!(%error, %digest, "the code of a package could not be kept for a later diff");
            }
        }
    }

    fn keep_files(&self, digest: Digest, files: &PackageFiles) -> io::Result<()> {
        if self.find(digest).is_some() {
            return Ok(());
        }
        let (new, target) = (self.folder.join(format!(".new-{digest}")), self.folder.join(digest.to_string()));
        for leftover in [&new, &target] {
            let _missing = fs::remove_dir_all(leftover);
        }
        folder::write(&new, files)?;
        fs::rename(&new, &target)?;
        self.make_room(&target)
    }

    /// The code with this digest, if a copy was kept and is undamaged.
    pub(super) fn find(&self, digest: Digest) -> Option<PackageFiles> {
        let (files, _) = folder::read(&self.folder.join(digest.to_string())).ok()?;
        (folder::digest(&files, "") == digest).then_some(files)
    }

    /// Removes the oldest copies until the others fit. The newest one stays.
    fn make_room(&self, newest: &Path) -> io::Result<()> {
        let mut copies = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_dir() && path != newest {
                copies.push((fs::metadata(&path)?.modified().unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        copies.sort();
        let mut bytes = bytes_of(newest);
        for (_, copy) in copies.iter().rev() {
            bytes = bytes.saturating_add(bytes_of(copy));
            if bytes > PACKAGE_CODE_KEPT_BYTES_MAX {
                fs::remove_dir_all(copy)?;
            }
        }
        Ok(())
    }

    pub(super) fn note_origin(&self, name: &str, origin: &Origin) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        fs::write(self.origin_of(name), serde_json::to_vec(origin)?)
    }

    /// `None` if the package was not installed through the server: somebody put its folder there by hand.
    pub(super) fn origin(&self, name: &str) -> Option<Origin> {
        serde_json::from_slice(&fs::read(self.origin_of(name)).ok()?).ok()
    }

    pub(super) fn forget_origin(&self, name: &str) {
        let _missing = fs::remove_file(self.origin_of(name));
    }

    fn origin_of(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

fn bytes_of(copy: &Path) -> u64 {
    folder::read(copy).map_or(0, |(files, _)| files.values().map(|file| file.bytes.len() as u64).sum())
}

/// Every file that differs, sorted by path.
pub(super) fn changes(before: &PackageFiles, after: &PackageFiles) -> Vec<CodeChange> {
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    paths.into_iter().filter_map(|path| change_of(path, before.get(path), after.get(path))).collect()
}

fn change_of(path: &str, before: Option<&PackageFile>, after: Option<&PackageFile>) -> Option<CodeChange> {
    if before == after {
        return None;
    }
    let change = match (before, after) {
        (None, _) => FileChange::Created,
        (Some(_), None) => FileChange::Removed,
        (Some(_), Some(_)) => FileChange::Changed,
    };
    let text = |file: Option<&PackageFile>| std::str::from_utf8(file.map_or(&[][..], |file| &file.bytes)).ok().map(str::to_owned);
    let mut told = CodeChange { path: path.to_owned(), change, diff: None, added_lines: 0, removed_lines: 0, is_truncated: false };
    let (Some(old), Some(new)) = (text(before), text(after)) else { return Some(told) };
    let diff = Diff::of(&old, &new);
    let (mut shown, is_truncated) = diff.shown(Room::REVIEW);
    if let (Some(before), Some(after)) = (before, after)
        && before.is_executable != after.is_executable
    {
        shown.insert_str(0, if after.is_executable { "\\ executable now\n" } else { "\\ no longer executable\n" });
    }
    (told.added_lines, told.removed_lines, told.is_truncated) = (diff.added(), diff.removed(), is_truncated);
    told.diff = Some(shown);
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8], is_executable: bool) -> PackageFile {
        PackageFile { bytes: bytes.into(), is_executable }
    }

    #[test]
    fn every_file_that_differs_is_told_and_what_is_not_text_has_no_diff() {
        let files = |files: &[(&str, PackageFile)]| files.iter().map(|(path, file)| ((*path).to_owned(), file.clone())).collect();
        let before: PackageFiles = files(&[
            ("execute.js", file(b"one\ntwo\n", false)),
            ("gone.js", file(b"x\n", false)),
            ("logo.png", file(b"\x89PNG\xff", false)),
            ("run", file(b"#!\n", false)),
            ("same.js", file(b"same\n", false)),
        ]);
        let after: PackageFiles = files(&[
            ("execute.js", file(b"one\n2\n", false)),
            ("logo.png", file(b"\x89PNG\xfe", false)),
            ("new.js", file(b"y\n", false)),
            ("run", file(b"#!\n", true)),
            ("same.js", file(b"same\n", false)),
        ]);
        let told = changes(&before, &after);
        let told: Vec<_> = told.iter().map(|one| (one.path.as_str(), one.change, one.diff.as_deref())).collect();
        let expected = [
            ("execute.js", FileChange::Changed, Some("@@ -1 +1 @@\n one\n-two\n+2\n")),
            ("gone.js", FileChange::Removed, Some("@@ -1 +1 @@\n-x\n")),
            ("logo.png", FileChange::Changed, None),
            ("new.js", FileChange::Created, Some("@@ -1 +1 @@\n+y\n")),
            ("run", FileChange::Changed, Some("\\ executable now\n")),
        ];
        assert_eq!(told, expected);
    }
}
