//! A fingerprint of this build of the tests.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Differs between two test programs, and between two builds of one program, so that no build uses what another has prepared.
pub(crate) fn fingerprint() -> String {
    let program = std::env::current_exe().expect("a test knows its own program");
    let built_at = program.metadata().and_then(|metadata| metadata.modified()).expect("a program has a time");
    let mut hasher = DefaultHasher::new();
    (program, built_at).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
