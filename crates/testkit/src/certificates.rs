//! Certificates for TLS on this machine, made for tests alone: their keys are public. Both are valid for `localhost` and `127.0.0.1` until
//! 2126, and signed by `ROOT`, whose key was thrown away.

use std::path::{Path, PathBuf};

pub const ROOT: &str = include_str!("../certificates/root.pem");

/// A certificate and its key, in PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub cert: &'static str,
    pub key: &'static str,
}

pub const FIRST: Pair = Pair { cert: include_str!("../certificates/first.pem"), key: include_str!("../certificates/first.key.pem") };
pub const SECOND: Pair = Pair { cert: include_str!("../certificates/second.pem"), key: include_str!("../certificates/second.key.pem") };
/// It was valid until 2021.
pub const EXPIRED: Pair = Pair { cert: include_str!("../certificates/expired.pem"), key: FIRST.key };

impl Pair {
    /// Writes both files into the folder, each in one step; returns the paths of the certificate and the key.
    pub fn write(self, folder: &Path) -> (PathBuf, PathBuf) {
        (replace(folder, "cert.pem", self.cert), replace(folder, "key.pem", self.key))
    }
}

/// Puts a file in the place of another, as tools that renew certificates do.
pub fn replace(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (path, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
    written.expect("the folder of a test takes files");
    path
}
