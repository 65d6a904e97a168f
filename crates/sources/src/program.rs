//! Programs of the host that are run in the jail: found by us, hashed by us, and shown to it with the system's libraries.

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where programs are looked for. Not in the environment's `PATH`: that may name a folder anybody can write to.
pub(crate) const PLACES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Where a system keeps its libraries.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// A program, and the digest of its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) sha256: [u8; 32],
}

/// Each is looked for once. Clones share what was found.
#[derive(Clone, Default)]
pub(crate) struct Programs(Arc<Mutex<HashMap<String, Option<Program>>>>);

impl Programs {
    /// Takes a while the first time: the program is read whole.
    pub(crate) async fn find(&self, name: &str) -> Option<Program> {
        let known = self.0.lock().get(name).cloned();
        if let Some(known) = known {
            return known;
        }
        let wanted = name.to_owned();
        let looked = move || PLACES.iter().find_map(|folder| look(&Path::new(folder).join(&wanted)));
        let found = tokio::task::spawn_blocking(looked).await.ok()?;
        self.0.lock().insert(name.to_owned(), found.clone());
        found
    }
}

/// A program the kernel can run by itself; a script that stands in for one would need more than its own bytes.
fn look(path: &Path) -> Option<Program> {
    let path = path.canonicalize().ok()?;
    let mut file = File::open(&path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 256 * 1024];
    let mut is_first = true;
    loop {
        match file.read(&mut chunk).ok()? {
            0 => break,
            read => {
                if is_first && !is_program(&chunk[..read]) {
                    return None;
                }
                is_first = false;
                hasher.update(&chunk[..read]);
            }
        }
    }
    Some(Program { path, sha256: hasher.finalize().into() })
}

pub(crate) fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// What of the host a program needs to start: the system's libraries, and its own where it lives elsewhere.
pub(crate) fn libraries(program: &Path) -> Vec<(PathBuf, PathBuf)> {
    let own = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
    let own = own.filter(|own| !LIBRARIES.iter().any(|library| own == Path::new(library)));
    let all = LIBRARIES.iter().map(PathBuf::from).chain(own);
    all.filter(|path| path.is_dir()).map(|path| (path.clone(), path)).collect()
}
