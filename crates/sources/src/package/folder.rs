//! The files of a package. They are read into memory as a whole, because the bytes that were hashed must be the bytes that run, and written
//! to disk as a whole.

use super::mistake::Mistake;
use crate::limits::{PACKAGE_BYTES_MAX, PACKAGE_FILES_MAX};
use countersign_core::Digest;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// How deep folders may be nested.
const DEPTH_MAX: usize = 8;

/// One file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    pub bytes: Arc<[u8]>,
    pub is_executable: bool,
}

impl PackageFile {
    pub fn sha256(&self) -> Digest {
        Digest::new(Sha256::digest(&self.bytes).into())
    }
}

/// Files by their path in the package, with `/` between the names.
pub type PackageFiles = BTreeMap<String, PackageFile>;

/// Changes whenever a file of the folder changes: path, inode, size, change time and mode. A program cannot set the change time.
pub(super) type Stamp = Vec<(String, u64, u64, i64, i64)>;

/// Every file of the folder, with the stamp taken before the reading.
pub(super) fn read(folder: &Path) -> Result<(PackageFiles, Stamp), Vec<Mistake>> {
    let before = stamp(folder)?;
    let mut mistakes = Vec::new();
    let files = read_files(folder, &before, &mut mistakes);
    if mistakes.is_empty() && stamp(folder)? != before {
        mistakes.push(Mistake::new("", "it changed while it was read", "try again once nothing writes to it"));
    }
    if mistakes.is_empty() { Ok((files, before)) } else { Err(mistakes) }
}

/// Every readable file of the folder, whatever else is wrong with it, for a caller who wants all mistakes.
pub(super) fn read_what_reads(folder: &Path, mistakes: &mut Vec<Mistake>) -> PackageFiles {
    let walk = Walk::through(folder);
    mistakes.extend(walk.mistakes);
    read_files(folder, &walk.stamp, mistakes)
}

fn read_files(folder: &Path, stamp: &Stamp, mistakes: &mut Vec<Mistake>) -> PackageFiles {
    let mut files = PackageFiles::new();
    let mut bytes_left = PACKAGE_BYTES_MAX;
    for (path, ..) in stamp {
        let file = match read_file(&folder.join(path), bytes_left) {
            Ok(file) => file,
            Err(error) => {
                mistakes.push(unreadable(path, &error));
                continue;
            }
        };
        match bytes_left.checked_sub(file.bytes.len()) {
            Some(left) => bytes_left = left,
            None => {
                mistakes.push(too_large());
                break;
            }
        }
        files.insert(path.clone(), file);
    }
    files
}

/// Reads at most one byte more than `bytes_max`, so that the caller notices a file that is too long.
fn read_file(path: &Path, bytes_max: usize) -> io::Result<PackageFile> {
    let mode = fs::symlink_metadata(path)?.mode();
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(PackageFile { bytes: bytes.into(), is_executable: mode & 0o100 != 0 })
}

pub(super) fn stamp(folder: &Path) -> Result<Stamp, Vec<Mistake>> {
    let walk = Walk::through(folder);
    if walk.mistakes.is_empty() { Ok(walk.stamp) } else { Err(walk.mistakes) }
}

pub(super) fn too_large() -> Mistake {
    let hint = "keep in it what its actions need, and nothing else";
    Mistake::new("", format!("its files hold more than {PACKAGE_BYTES_MAX} bytes together"), hint)
}

pub(super) fn too_many() -> Mistake {
    Mistake::new("", format!("it has more than {PACKAGE_FILES_MAX} files"), "keep in it what its actions need, and nothing else")
}

fn unreadable(path: &str, error: &io::Error) -> Mistake {
    Mistake::new(path, format!("it cannot be read: {error}"), "look at whether it is there, and whether you may read it")
}

/// Walks through a folder and continues after a mistake.
struct Walk<'f> {
    folder: &'f Path,
    stamp: Stamp,
    mistakes: Vec<Mistake>,
}

impl<'f> Walk<'f> {
    fn through(folder: &'f Path) -> Self {
        let mut walk = Self { folder, stamp: Stamp::new(), mistakes: Vec::new() };
        walk.go_below("", 0);
        walk.stamp.sort();
        walk
    }

    fn go_below(&mut self, below: &str, depth: usize) {
        if depth > DEPTH_MAX {
            self.mistakes.push(Mistake::new(below, format!("it lies deeper than {DEPTH_MAX} folders"), "move it up"));
            return;
        }
        let entries = match fs::read_dir(self.folder.join(below)) {
            Ok(entries) => entries,
            Err(error) => return self.mistakes.push(unreadable(below, &error)),
        };
        for entry in entries {
            match entry {
                Ok(entry) => self.look_at(below, depth, &entry),
                Err(error) => self.mistakes.push(unreadable(below, &error)),
            }
            if self.stamp.len() > PACKAGE_FILES_MAX {
                if !self.mistakes.contains(&too_many()) {
                    self.mistakes.push(too_many());
                }
                return;
            }
        }
    }

    fn look_at(&mut self, below: &str, depth: usize, entry: &fs::DirEntry) {
        let name = entry.file_name();
        let path = |name: &str| if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        let Some(name) = name.to_str() else {
            let shown = path(&name.to_string_lossy());
            return self.mistakes.push(Mistake::new(shown, "its name is not UTF-8", "give it another name"));
        };
        let path = path(name);
        let found = match entry.metadata() {
            Ok(found) => found,
            Err(error) => return self.mistakes.push(unreadable(&path, &error)),
        };
        if found.is_dir() {
            self.go_below(&path, depth + 1);
        } else if found.is_file() {
            let changed = found.ctime().wrapping_mul(1_000_000_000).wrapping_add(found.ctime_nsec());
            self.stamp.push((path, found.ino(), found.size(), changed, i64::from(found.mode())));
        } else {
            self.mistakes.push(Mistake::new(path, "it is neither a file nor a folder", "put the file itself there, not a link to it"));
        }
    }
}

/// Reports paths that a package may not have: every name must be plain, not hidden and not `..`. Of several files below one bad folder,
/// only the folder is reported.
pub(super) fn check_paths(files: &PackageFiles, mistakes: &mut Vec<Mistake>) {
    let mut said = BTreeSet::new();
    for path in files.keys() {
        let names: Vec<_> = path.split('/').collect();
        // A folder on disk cannot have a file and a folder of the same name, but a list of files can.
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]).filter(|folder| files.contains_key(*folder));
        for folder in folders.map(crate::words::shown) {
            if said.insert(folder.clone()) {
                mistakes.push(Mistake::new(folder, "it is a file, and a folder with files in it besides", "give one of them another name"));
            }
        }
        let odd = names.iter().position(|name| !is_plain(name)).or((names.len() > DEPTH_MAX).then_some(names.len() - 1));
        let Some(odd) = odd.map(|at| crate::words::shown(&names[..=at].join("/"))) else { continue };
        if said.insert(odd.clone()) {
            let hint = "use letters, digits, `_`, `-` and `.`, and no name that begins with `.` or `-`; or remove it";
            mistakes.push(Mistake::new(odd, "that is not a path a package may have", hint));
        }
    }
}

fn is_plain(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Folders under `actions/` that are empty. `files` does not show them, since it lists files only.
pub(super) fn empty_actions(folder: &Path, files: &PackageFiles) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join("actions")) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<_> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| below(files, &format!("actions/{name}/")).next().is_none());
    names.sort();
    names
}

/// Covers every file below `prefix`: its path, its bytes, and whether it may be executed.
pub(super) fn digest(files: &PackageFiles, prefix: &str) -> Digest {
    let mut hasher = Sha256::new();
    for (path, file) in below(files, prefix) {
        // Each length comes first, so that two different folders cannot hash the same bytes.
        hasher.update((path.len() as u64).to_be_bytes());
        hasher.update(path.as_bytes());
        hasher.update([u8::from(file.is_executable)]);
        hasher.update((file.bytes.len() as u64).to_be_bytes());
        hasher.update(&file.bytes);
    }
    Digest::new(hasher.finalize().into())
}

/// The files below `prefix`, by the rest of their path.
pub(super) fn below<'f>(files: &'f PackageFiles, prefix: &'f str) -> impl Iterator<Item = (&'f str, &'f PackageFile)> {
    files.iter().filter_map(move |(path, file)| path.strip_prefix(prefix).map(|rest| (rest, file)))
}

/// Writes a package into a folder that does not exist yet.
pub(super) fn write(folder: &Path, files: &PackageFiles) -> io::Result<()> {
    let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    make(folder)?;
    for (path, file) in files {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            make(parent)?;
        }
        // A program runs under another uid, so everyone may execute it. The private folder around it keeps others out.
        let mode = if file.is_executable { 0o755 } else { 0o600 };
        let mut written = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&target)?;
        written.write_all(&file.bytes)?;
        written.set_permissions(fs::Permissions::from_mode(mode))?;
        written.sync_all()?;
    }
    File::open(folder)?.sync_all()
}
