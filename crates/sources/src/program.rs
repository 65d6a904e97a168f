//! Programs of the host that run in the jail. This file finds them and hashes them, and says which libraries of the system they need.

use countersign_core::file_version::FileVersion;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where programs are searched for. Not in the environment's `PATH`, which may contain a folder that anybody can write to.
pub(crate) const PLACES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Tells a program where the jail lets it write temporary files.
pub(crate) const SCRATCH: (&str, &str) = ("TMPDIR", "/tmp");
/// The folders in which a system has its libraries.
pub(crate) const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// A program, and the BLAKE3 digest of its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) digest: [u8; 32],
}

/// Finds programs and remembers their digests. A program is read whole once, and again when it has changed, so an installation or an
/// upgrade is noticed at the next call. Clones share what was found.
#[derive(Clone)]
pub(crate) struct Programs {
    places: Arc<[PathBuf]>,
    read: Arc<Mutex<HashMap<PathBuf, (FileVersion, Program)>>>,
}

impl Default for Programs {
    fn default() -> Self {
        Self::in_places(&PLACES.map(PathBuf::from))
    }
}

impl Programs {
    fn in_places(places: &[PathBuf]) -> Self {
        Self { places: places.into(), read: Arc::default() }
    }

    /// Slow the first time, because the program is read whole.
    pub(crate) async fn find(&self, name: &str) -> Option<Program> {
        let (own, name) = (self.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || own.find_now(&name)).await.ok()?
    }

    pub(crate) fn find_now(&self, name: &str) -> Option<Program> {
        self.places.iter().find_map(|folder| self.look(&folder.join(name)))
    }

    /// Accepts only a program that the kernel can run by itself. A script would need an interpreter beside its own bytes.
    fn look(&self, path: &Path) -> Option<Program> {
        let path = path.canonicalize().ok()?;
        let found = path.metadata().ok().filter(Metadata::is_file)?;
        let known = self.read.lock().get(&path).cloned();
        if let Some((version, program)) = known
            && version == FileVersion::of(&found)
        {
            return Some(program);
        }
        let mut file = File::open(&path).ok()?;
        let before = FileVersion::of(&file.metadata().ok()?);
        let program = Program { digest: hash(&mut file)?, path: path.clone() };
        // If the file changed while it was read, it is read again the next time.
        if before == FileVersion::of(&file.metadata().ok()?) {
            self.read.lock().insert(path, (before, program.clone()));
        }
        Some(program)
    }
}

/// `None` if the file is not a program, or cannot be read.
fn hash(file: &mut File) -> Option<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; 256 * 1024];
    let mut is_first = true;
    loop {
        match file.read(&mut chunk).ok()? {
            0 if is_first => return None,
            0 => return Some(hasher.finalize().into()),
            read => {
                if is_first && !is_program(&chunk[..read]) {
                    return None;
                }
                is_first = false;
                hasher.update(&chunk[..read]);
            }
        }
    }
}

pub(crate) fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// SECURITY: `LD_…` would make a program load other code, and `COUNTERSIGN_…` is how the jail tells it about itself.
pub(crate) fn is_variable(name: &str) -> bool {
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word && !name.starts_with("LD_") && !name.starts_with("COUNTERSIGN_")
}

/// The folders of the host that a program needs to start: the system's libraries, and its own if it is installed elsewhere.
pub(crate) fn libraries(program: &Path) -> Vec<(PathBuf, PathBuf)> {
    let own = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
    shown_as_they_are(own.filter(|own| !LIBRARIES.iter().any(|library| own == Path::new(library))))
}

/// The same for a program that comes with a package. The files beside it belong to the package, and the jail gets those from memory.
pub(crate) fn system_libraries() -> Vec<(PathBuf, PathBuf)> {
    shown_as_they_are(None)
}

fn shown_as_they_are(own: Option<PathBuf>) -> Vec<(PathBuf, PathBuf)> {
    let all = LIBRARIES.iter().map(PathBuf::from).chain(own);
    all.filter(|path| path.is_dir()).map(|path| (path.clone(), path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_upgraded_or_removed_meanwhile_is_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().canonicalize().unwrap();
        let (first, second) = (folder.join("first"), folder.join("second"));
        for place in [&first, &second] {
            std::fs::create_dir(place).unwrap();
        }
        let programs = Programs::in_places(&[first.clone(), second.clone()]);
        let holds = |expected: Option<(&Path, &[u8])>| {
            let found = programs.find_now("tool").map(|program| (program.path, program.digest));
            let expected = expected.map(|(path, bytes)| (path.to_owned(), blake3::hash(bytes).into()));
            assert_eq!(found, expected);
        };
        let at = second.join("tool");
        holds(None);
        std::fs::write(&at, "#!/bin/sh\n").unwrap();
        holds(None);
        std::fs::write(&at, b"").unwrap();
        holds(None);
        std::fs::write(&at, b"\x7fELF one").unwrap();
        holds(Some((&at, b"\x7fELF one")));
        // The same file with other bytes, then another file under the same name.
        std::fs::write(&at, b"\x7fELF one and more").unwrap();
        holds(Some((&at, b"\x7fELF one and more")));
        std::fs::write(second.join("new"), b"\x7fELF two and more").unwrap();
        std::fs::rename(second.join("new"), &at).unwrap();
        holds(Some((&at, b"\x7fELF two and more")));
        // A program in an earlier folder wins. It may be a link.
        std::fs::write(folder.join("real"), b"\x7fELF three").unwrap();
        std::os::unix::fs::symlink(folder.join("real"), first.join("tool")).unwrap();
        holds(Some((&folder.join("real"), b"\x7fELF three")));
        std::fs::remove_file(first.join("tool")).unwrap();
        holds(Some((&at, b"\x7fELF two and more")));
        std::fs::remove_file(&at).unwrap();
        holds(None);
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("tool");
        std::fs::write(&at, b"\x7fELF one").unwrap();
        let programs = Programs::in_places(&[folder.path().to_owned()]);
        let found = programs.find_now("tool").unwrap();
        // As long as the file is unchanged, the remembered digest is returned.
        programs.read.lock().get_mut(&found.path).unwrap().1.digest = [7; 32];
        assert_eq!(programs.find_now("tool").unwrap().digest, [7; 32]);
    }
}
