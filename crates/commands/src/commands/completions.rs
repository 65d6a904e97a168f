//! `countersign completions`: completion scripts for shells. A script only calls this binary back with the words typed so far. Commands and
//! flags are completed from the tree of commands, names and ids from what the server lists at that moment.

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

/// The variable that the shell's function sets, to the name of the shell, when it calls back.
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

/// The names of the arguments that are completed from the server.
#[cfg(test)]
pub(crate) fn offered_names() -> impl Iterator<Item = &'static str> {
    known::names()
}

/// If a shell asked for completions, answers it and ends the process; otherwise does nothing.
pub(crate) fn answer_shell_if_asked(tree: impl Fn() -> Command) {
    CompleteEnv::with_factory(|| known::offered(tree())).var(VARIABLE).bin(NAME).completer(NAME).complete();
}
