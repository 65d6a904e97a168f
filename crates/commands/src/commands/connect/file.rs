//! The settings file of another program: read whole, and replaced in one step, with what was there before beside it.

use crate::shared::*;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Settings that are larger than this are none.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Copies that are kept beside a file; then somebody has to look at them.
const COPIES_MAX: u32 = 1_000;
/// A new file may hold a token.
const OWNER_ONLY: u32 = 0o600;

/// The content of the file; empty if there is none.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() > BYTES_MAX => return Err(Failure::failed(format!("`{}` is too large", path.display()))),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(Failure::file(path, &error)),
    }
    std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))
}

/// Replaces the file, if it still is what was read: another program may write to it too. A link stays one: what it points to is replaced.
/// Returns where the content from before is kept, if there was any.
pub(super) fn replace(path: &Path, read_before: &str, text: &str) -> Result<Option<PathBuf>, Failure> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |error: std::io::Error| Failure::file(&real, &error);
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let before = std::fs::metadata(&real).ok();
    let mode = before.as_ref().map_or(OWNER_ONLY, |before| before.permissions().mode());
    let part = written(folder, text.as_bytes(), mode).map_err(failed)?;
    if read(&real)? != read_before {
        let changed = format!("`{}` was changed by another program meanwhile, and stays as it is", path.display());
        return Err(Failure::new(Exit::Conflict, changed).hint("run it again"));
    }
    let backup = match before {
        Some(_) => Some(keep(folder, &real, read_before.as_bytes(), mode).map_err(failed)?),
        None => None,
    };
    // SECURITY: whatever has its name is replaced, never written through: it may be a link that somebody else put there.
    part.persist(&real).map_err(|error| failed(error.error))?;
    Ok(backup)
}

/// Removes a file that `connect` made, if it still is what was read: there was nothing before it, so no copy is beside it. Returns whether
/// it was removed.
pub(super) fn remove_made(path: &Path, read_before: &str) -> Result<bool, Failure> {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let has_copy = std::fs::symlink_metadata(beside(path, 1)).is_ok();
    if !is_file || has_copy || read(path)? != read_before {
        return Ok(false);
    }
    std::fs::remove_file(path).map_err(|error| Failure::file(path, &error))?;
    Ok(true)
}

/// What was kept beside the file, the last copy first.
pub(super) fn copies(path: &Path) -> Vec<String> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let kept = (1..=COPIES_MAX).map(|number| beside(&real, number)).take_while(|copy| copy.is_file());
    let mut copies: Vec<_> = kept.filter_map(|copy| read(&copy).ok()).collect();
    copies.reverse();
    copies
}

/// A file without its name yet.
fn written(folder: &Path, content: &[u8], mode: u32) -> std::io::Result<NamedTempFile> {
    let mut part = NamedTempFile::new_in(folder)?;
    part.write_all(content)?;
    part.as_file().sync_all()?;
    std::fs::set_permissions(part.path(), std::fs::Permissions::from_mode(mode))?;
    Ok(part)
}

/// Keeps a copy under the first name that is free. An older copy stays: it may be the only one of what the person wrote.
fn keep(folder: &Path, path: &Path, content: &[u8], mode: u32) -> std::io::Result<PathBuf> {
    let mut part = written(folder, content, mode)?;
    for number in 1..=COPIES_MAX {
        let copy = beside(path, number);
        part = match part.persist_noclobber(&copy) {
            Ok(_) => return Ok(copy),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => error.file,
            Err(error) => return Err(error.error),
        };
    }
    Err(std::io::Error::new(
        ErrorKind::AlreadyExists,
        format!("there are {COPIES_MAX} copies already, `{}` the first", beside(path, 1).display()),
    ))
}

/// `NAME.countersign-backup`, then `NAME.countersign-backup.2` and so on.
fn beside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".countersign-backup");
    if number > 1 {
        name.push(format!(".{number}"));
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_through_links_and_a_copy_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        std::fs::write(&real, "one").unwrap();
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let backup = replace(&link, "one", "two").unwrap().unwrap();
        assert_eq!((read(&real).unwrap(), read(&backup).unwrap()), ("two".to_owned(), "one".to_owned()));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        // An older copy stays, and so does a link in the place of one.
        let other = folder.path().join("other");
        std::fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("real.json.countersign-backup.2")).unwrap();
        let third = replace(&link, "two", "three").unwrap().unwrap();
        assert!(third.ends_with("real.json.countersign-backup.3"), "{}", third.display());
        let kept = [&backup, &other, &third].map(|path| read(path).unwrap());
        assert_eq!(kept, ["one", "other", "two"]);
        // What another program wrote meanwhile stays.
        std::fs::write(&real, "theirs").unwrap();
        assert!(replace(&link, "three", "four").is_err());
        assert_eq!(read(&real).unwrap(), "theirs");
        let new = folder.path().join("a/b/new.json");
        assert_eq!(replace(&new, "", "three").unwrap(), None);
        assert_eq!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&folder.path().join("nothing")).unwrap(), "");
    }

    #[test]
    fn a_file_is_removed_only_if_it_was_made_and_not_changed_since() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("made.json"), folder.path().join("link.json"));
        replace(&path, "", "one").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(!remove_made(&link, "one").unwrap() && !remove_made(&path, "other").unwrap());
        let backup = replace(&path, "one", "two").unwrap().unwrap();
        assert!(!remove_made(&path, "two").unwrap());
        std::fs::remove_file(backup).unwrap();
        assert!(remove_made(&path, "two").unwrap() && !path.exists());
        assert!(!remove_made(&path, "").unwrap());
    }
}
