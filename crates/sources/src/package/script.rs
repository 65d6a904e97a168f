//! The scripts that an action of a package may have.

/// The purpose of a script, which is also the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Execute,
    Verify,
    Rollback,
}

impl Script {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Verify => "verify",
            Self::Rollback => "rollback",
        }
    }
}

/// The end of an error message about code that could not have changed anything.
pub(super) const UNCHANGED: &str = "; nothing was changed";
