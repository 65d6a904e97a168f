//! Completions for shells. The script for a shell only calls this binary back with the words so far: commands and flags are completed
//! from their tree, and names and ids from what the server lists at that moment.

mod known;

use crate::shared::*;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh > ~/.zfunc/_countersign
  countersign completions fish > ~/.config/fish/completions/countersign.fish";

/// Set by the shell's function when it calls back, to the shell's name.
const VARIABLE: &str = "COUNTERSIGN_COMPLETE";
const NAME: &str = "countersign";

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell they are for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (shells, name) = (Shells::builtins(), self.shell.to_string());
        let shell = shells.completer(&name).ok_or_else(|| Failure::usage(format!("there are no completions for `{name}`")))?;
        let mut script = Vec::new();
        let written = shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script);
        written.map_err(|error| Failure::failed(format!("the completions cannot be written: {error}")))?;
        terminal.bytes(&script)?;
        Ok(Exit::Ok)
    }
}

/// The names of the arguments for which something is offered.
#[cfg(test)]
pub(crate) fn offered_names() -> impl Iterator<Item = &'static str> {
    known::names()
}

/// Answers a shell that calls back, and ends the process; does nothing where none does.
pub(crate) fn answer_shell_if_asked(tree: impl Fn() -> Command) {
    CompleteEnv::with_factory(|| known::offered(tree())).var(VARIABLE).bin(NAME).completer(NAME).complete();
}
