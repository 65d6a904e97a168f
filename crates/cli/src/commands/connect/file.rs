//! The settings file of another program: read whole, and replaced in one step, with what was there before beside it.

use crate::shared::*;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Settings that are larger than this are none.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
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

/// Replaces the file. A link stays one: what it points to is replaced. Returns where the content from before is kept, if there was any.
pub(super) fn replace(path: &Path, text: &str) -> Result<Option<PathBuf>, Failure> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |error: std::io::Error| Failure::file(&real, &error);
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let before = std::fs::metadata(&real).ok();
    let mode = before.as_ref().map_or(OWNER_ONLY, |before| before.permissions().mode());
    let backup = before.is_some().then(|| beside(&real));
    if let Some(backup) = &backup {
        let content = std::fs::read(&real).map_err(failed)?;
        put(folder, backup, &content, mode).map_err(|error| Failure::file(backup, &error))?;
    }
    put(folder, &real, text.as_bytes(), mode).map_err(failed)?;
    Ok(backup)
}

/// Writes a file in one step. SECURITY: whatever has its name is replaced, never written through: it may be a link that somebody else put there.
fn put(folder: &Path, path: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(content)?;
    part.as_file().sync_all()?;
    std::fs::set_permissions(part.path(), std::fs::Permissions::from_mode(mode))?;
    part.persist(path).map(|_| ()).map_err(|error| error.error)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".countersign-backup");
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
        let backup = replace(&link, "two").unwrap().unwrap();
        assert_eq!((read(&real).unwrap(), read(&backup).unwrap()), ("two".to_owned(), "one".to_owned()));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        // A link in the place of the copy is replaced, and what it points to stays.
        let other = folder.path().join("other");
        std::fs::write(&other, "other").unwrap();
        std::fs::remove_file(&backup).unwrap();
        std::os::unix::fs::symlink(&other, &backup).unwrap();
        replace(&link, "three").unwrap();
        assert_eq!((read(&backup).unwrap(), read(&other).unwrap()), ("two".to_owned(), "other".to_owned()));
        let new = folder.path().join("a/b/new.json");
        assert_eq!(replace(&new, "three").unwrap(), None);
        assert_eq!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&folder.path().join("nothing")).unwrap(), "");
    }
}
