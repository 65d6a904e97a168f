//! Opens the program and checks its digest. The descriptor that was hashed is the one that is executed, so the file cannot be swapped in
//! between.

use crate::error::Error;
use crate::spec::Program;
use countersign_core::file_version::FileVersion;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// How many digests are remembered. They are, because an interpreter of 100 MB takes longer to hash than to run, even with BLAKE3.
const REMEMBERED_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Digests(Mutex<HashMap<FileVersion, [u8; 32]>>);

impl Digests {
    pub(crate) fn open(&self, program: &Program) -> Result<OwnedFd, Error> {
        let path = program.path.display().to_string();
        let failed = |error: std::io::Error| Error::Refused { what: path.clone(), why: error.to_string() };
        // Opened non-blocking, so that a fifo in the program's place cannot block us.
        let mut options = File::options();
        let mut file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&program.path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(Error::Refused { what: path, why: "not a regular file".into() });
        }
        if found.mode() & 0o6000 != 0 {
            return Err(Error::Refused { what: path, why: "it carries a setuid or setgid bit".into() });
        }
        let version = FileVersion::of(&found);
        let remembered = self.0.lock().get(&version).copied();
        let digest = match remembered {
            Some(digest) => digest,
            None => {
                let digest = hash(&mut file).map_err(failed)?;
                let mut all = self.0.lock();
                if all.len() >= REMEMBERED_MAX {
                    all.clear();
                }
                all.insert(version, digest);
                digest
            }
        };
        if digest == program.digest {
            Ok(file.into())
        } else {
            Err(Error::OtherProgram { path, expected: hex::encode(program.digest), found: hex::encode(digest) })
        }
    }
}

/// The digest of a file as it is now. A caller uses it to pin a program that it has reason to trust.
pub fn digest_of(path: &std::path::Path) -> std::io::Result<[u8; 32]> {
    hash(&mut File::open(path)?)
}

fn hash(file: &mut File) -> std::io::Result<[u8; 32]> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(file)?;
    Ok(hash.finalize().into())
}
