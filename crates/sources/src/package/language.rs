//! The languages of scripts, and their interpreters.

use crate::program::{PLACES, Programs};
use crate::words::refused;
use countersign_core::Digest;
use countersign_core::source::Error;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    JavaScript,
    Python,
}

/// An interpreter, and whether it is installed.
pub struct Interpreter {
    pub name: &'static str,
    /// The language it runs.
    pub language: &'static str,
    /// The path of the interpreter and the digest of its bytes; `None` if it is not installed.
    pub found: Option<(PathBuf, Digest)>,
}

/// Every interpreter that scripts may need. Reads each of them from disk to compute its digest.
pub fn interpreters() -> Vec<Interpreter> {
    let programs = Programs::default();
    let look = |language: Language| {
        let found = programs.find_now(language.command()).and_then(|program| {
            let bytes = std::fs::read(&program.path).ok()?;
            Some((program.path, Digest::new(Sha256::digest(bytes).into())))
        });
        Interpreter { name: language.command(), language: language.title(), found }
    };
    Language::ALL.into_iter().map(look).collect()
}

impl Language {
    pub(super) const ALL: [Self; 2] = [Self::JavaScript, Self::Python];

    /// The language of a script by its file extension; `None` if the file is a program of its own.
    pub(super) fn of(file: &str) -> Option<Self> {
        match Path::new(file).extension().and_then(|extension| extension.to_str()) {
            Some("js") => Some(Self::JavaScript),
            Some("py") => Some(Self::Python),
            Some(_) | None => None,
        }
    }

    /// The language whose interpreter has this name.
    pub(super) fn named(command: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.command() == command)
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
        }
    }

    pub(super) const fn command(self) -> &'static str {
        match self {
            Self::JavaScript => "node",
            Self::Python => "python3",
        }
    }

    /// The arguments before the script. Neither interpreter reads the environment, a user's folder or installed modules.
    pub(super) fn args(self, memory_bytes: u64) -> Vec<String> {
        match self {
            Self::JavaScript => vec![format!("--max-old-space-size={}", (memory_bytes >> 20).max(32) * 3 / 4), "--no-addons".to_owned()],
            Self::Python => ["-I", "-S", "-B"].map(str::to_owned).to_vec(),
        }
    }

    pub(super) fn missing(self) -> Error {
        let message = format!("there is no `{}` in {}: install it, and call again", self.command(), PLACES.join(", "));
        refused("package_interpreter_missing", message)
    }
}
