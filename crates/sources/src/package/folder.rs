//! The files of a package: read whole into memory, because what was hashed must be what runs, and put on disk whole or not at all.

use countersign_core::Digest;
use countersign_core::limits::{PACKAGE_BYTES_MAX, PACKAGE_FILES_MAX};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// Folders inside one another.
const DEPTH_MAX: usize = 8;

/// One file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    pub bytes: Arc<[u8]>,
    pub is_executable: bool,
}

/// Files by their path in the package, names divided by `/`.
pub type PackageFiles = BTreeMap<String, PackageFile>;

/// What changes whenever a file of the folder does. The change time cannot be set.
pub(super) type Stamp = Vec<(String, u64, u64, i64, i64)>;

/// Every file of the folder, and the stamp it was read under.
pub(super) fn read(folder: &Path) -> Result<(PackageFiles, Stamp), String> {
    let before = stamp(folder)?;
    let mut files = PackageFiles::new();
    let mut bytes_left = PACKAGE_BYTES_MAX;
    for (path, ..) in &before {
        let failed = |error: io::Error| format!("`{path}` cannot be read: {error}");
        let found = folder.join(path);
        let mode = fs::symlink_metadata(&found).map_err(failed)?.mode();
        let mut bytes = Vec::new();
        File::open(&found).map_err(failed)?.take(bytes_left as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        bytes_left =
            bytes_left.checked_sub(bytes.len()).ok_or_else(|| format!("its files hold more than {PACKAGE_BYTES_MAX} bytes together"))?;
        files.insert(path.clone(), PackageFile { bytes: bytes.into(), is_executable: mode & 0o100 != 0 });
    }
    if stamp(folder)? == before { Ok((files, before)) } else { Err("it changed while it was read".to_owned()) }
}

pub(super) fn stamp(folder: &Path) -> Result<Stamp, String> {
    let mut stamp = Stamp::new();
    walk(folder, "", 0, &mut stamp)?;
    stamp.sort();
    Ok(stamp)
}

fn walk(folder: &Path, below: &str, depth: usize, stamp: &mut Stamp) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("`{below}` lies deeper than {DEPTH_MAX} folders"));
    }
    let failed = |error: io::Error| format!("its folder cannot be read: {error}");
    for entry in fs::read_dir(folder.join(below)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| "one of its files has a name that is not UTF-8".to_owned())?;
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        let found = entry.metadata().map_err(failed)?;
        if found.is_dir() {
            walk(folder, &path, depth + 1, stamp)?;
        } else if found.is_file() {
            let changed = found.ctime().wrapping_mul(1_000_000_000).wrapping_add(found.ctime_nsec());
            stamp.push((path, found.ino(), found.size(), changed, i64::from(found.mode())));
        } else {
            return Err(format!("`{path}` is neither a file nor a folder"));
        }
        if stamp.len() > PACKAGE_FILES_MAX {
            return Err(format!("it has more than {PACKAGE_FILES_MAX} files"));
        }
    }
    Ok(())
}

/// Whether this is a path a package may have: plain names, none of them hidden or climbing.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    let is_plain = |name: &str| {
        (1..=100).contains(&name.len())
            && !name.starts_with(['.', '-'])
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    };
    let names: Vec<_> = path.split('/').collect();
    if names.len() <= DEPTH_MAX && names.into_iter().all(is_plain) {
        return Ok(());
    }
    let shown = crate::words::shown(path);
    Err(format!("`{shown}` is not a path a package may have: letters, digits, `_`, `-` and `.`, and no name that begins with `.` or `-`"))
}

/// Covers every file below `prefix`: its path, its bytes, and whether it may be executed.
pub(super) fn digest(files: &PackageFiles, prefix: &str) -> Digest {
    let mut hasher = Sha256::new();
    for (path, file) in below(files, prefix) {
        // Lengths first, so that no two folders read alike.
        hasher.update((path.len() as u64).to_be_bytes());
        hasher.update(path.as_bytes());
        hasher.update([u8::from(file.is_executable)]);
        hasher.update((file.bytes.len() as u64).to_be_bytes());
        hasher.update(&file.bytes);
    }
    Digest::new(hasher.finalize().into())
}

/// The files below `prefix`, by what follows it.
pub(super) fn below<'f>(files: &'f PackageFiles, prefix: &'f str) -> impl Iterator<Item = (&'f str, &'f PackageFile)> {
    files.iter().filter_map(move |(path, file)| path.strip_prefix(prefix).map(|rest| (rest, file)))
}

/// Writes a package where there is nothing yet.
pub(super) fn write(folder: &Path, files: &PackageFiles) -> io::Result<()> {
    let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    make(folder)?;
    for (path, file) in files {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            make(parent)?;
        }
        // A program runs as nobody who owns it; the folder around it is what keeps others out.
        let mode = if file.is_executable { 0o755 } else { 0o600 };
        let mut written = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&target)?;
        written.write_all(&file.bytes)?;
        written.set_permissions(fs::Permissions::from_mode(mode))?;
        written.sync_all()?;
    }
    File::open(folder)?.sync_all()
}
