//! Manual pages, generated from the tree of commands: one for each.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output::Terminal;
use clap::Args;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign man ~/.local/share/man/man1                   then: man countersign-action-invoke";

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder to write them to; it must exist
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if !self.folder.is_dir() {
            return Err(Failure::new(Exit::NotFound, format!("`{}` is not a folder", self.folder.display())).hint("make it first"));
        }
        clap_mangen::generate_to(args::command(), &self.folder).map_err(|error| Failure::file(&self.folder, &error))?;
        terminal.note(format!("manual pages are in {}", self.folder.display()));
        Ok(Exit::Ok)
    }
}
