//! `countersign man`: manual pages, generated from the tree of commands, one for each command with its examples.

use crate::shared::*;
use clap::{Args, Command};
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
    pub(crate) fn run(self, tree: Command, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("man")?;
        if !self.folder.is_dir() {
            return Err(Failure::new(Exit::NotFound, format!("`{}` is not a folder", self.folder.display())).hint("create it first"));
        }
        clap_mangen::generate_to(with_examples(tree), &self.folder).map_err(|error| Failure::file(&self.folder, &error))?;
        setting.terminal.note(format!("manual pages are in {}", self.folder.display()));
        Ok(Exit::Ok)
    }
}

/// Moves the examples behind the help, because a manual page leaves out the text before it.
fn with_examples(command: Command) -> Command {
    let command = match command.get_before_help().cloned() {
        Some(examples) => command.after_help(examples),
        None => command,
    };
    command.mut_subcommands(with_examples)
}
