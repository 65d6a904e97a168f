//! Where the key came from that a log or a proof is checked with.

use std::path::Path;

/// Where the trusted key came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOrigin {
    Pinned,
    SameServer,
    SameFile,
}

impl KeyOrigin {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::SameServer => "server",
            Self::SameFile => "file",
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Pinned => "given with --key",
            Self::SameServer => "from the same server",
            Self::SameFile => "from the file itself",
        }
    }

    pub(super) fn warning(self, file: Option<&Path>) -> Option<&'static str> {
        match self {
            Self::Pinned => None,
            Self::SameServer => Some(
                "the key came from the same server as the records: keep one with `countersign receipt key --out FILE` and give it with --key",
            ),
            Self::SameFile => file.map(
                |_| "the key was taken from the file itself: this shows that the file is whole, not who wrote it; give the key with --key",
            ),
        }
    }
}
