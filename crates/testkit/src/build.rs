//! Which build of the tests this is.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Differs between two test programs, and between two builds of one: what one build prepared is never taken by another.
pub(crate) fn fingerprint() -> String {
    let program = std::env::current_exe().expect("a test knows its own program");
    let built_at = program.metadata().and_then(|metadata| metadata.modified()).expect("a program has a time");
    let mut hasher = DefaultHasher::new();
    (program, built_at).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
