//! Programs as people install them: `npx -y PACKAGE`, `uvx PACKAGE`, a script of a virtual environment or of `node_modules/.bin`, and any
//! other script that names its interpreter. What runs in the end is the interpreter, with the files that it and its packages need.
//!
//! Packages are installed outside the jail, once per version, below one folder (`registry.rs`); `interpreter.rs` says what runs.

use super::interpreter::{Finding, Located};
use super::registry::{self, Asked};
use crate::program::Programs;
use countersign_core::source::Error;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What a command runs, and what it is shown of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The words that run: those that were asked for, with the version of the package that was installed for them. The plan of these words is
    /// the same plan again.
    pub command: Vec<String>,
    /// The files and folders of the host that the program sees, read-only, beside the libraries of the system.
    pub readable: Vec<PathBuf>,
    /// SHA-256, in hex, of what runs: the words, the interpreter, the script, and the packages that were installed for it.
    pub digest: String,
    /// What the person who adds it should know, a sentence each.
    pub notes: Vec<String>,
}

/// Finds out what a command runs. A package that it names is installed first, if it is not there yet.
pub async fn plan(command: &[String], programs_folder: &Path) -> Result<Plan, Error> {
    let (command, located, notes) = resolve(command, programs_folder, &Programs::default()).await?;
    let readable = located.shown.iter().map(|shown| shown.host.clone()).filter(|path| !is_of_system(path)).collect();
    Ok(Plan { command, readable, digest: located.digest, notes })
}

fn is_of_system(path: &Path) -> bool {
    crate::program::LIBRARIES.iter().any(|library| path == Path::new(library))
}

/// The pinned words, what runs, and what to tell about it.
pub(super) async fn resolve(command: &[String], folder: &Path, programs: &Programs) -> Result<(Vec<String>, Located, Vec<String>), Error> {
    let (asked, installed, notes) = match registry::asked(command)? {
        Some(asked) => {
            let installed = registry::install(&asked, folder).await?;
            let notes = installed.notes.clone();
            (Some(asked), Some(installed), notes)
        }
        None => (None, None, Vec::new()),
    };
    let words = match (&asked, &installed) {
        (Some(asked), Some(installed)) => asked.pinned(&installed.version),
        _ => command.to_vec(),
    };
    let (finding, pinned) = (Finding::new(programs.clone(), &words), words.clone());
    let find = move || match asked.zip(installed) {
        Some((asked, installed)) => of_package(finding, &asked, &installed),
        None => finding.command(&words),
    };
    let located = tokio::task::spawn_blocking(find).await;
    let located = located.map_err(|error| crate::words::refused("program_missing", format!("it could not be looked for: {error}")))??;
    Ok((pinned, located, notes))
}

fn of_package(finding: Finding, asked: &Asked, installed: &registry::Installed) -> Result<Located, Error> {
    match asked.kind {
        registry::Kind::Npm => finding.npm(asked, installed),
        registry::Kind::Pypi => finding.pypi(asked, installed),
    }
}
