//! Completions for shells, generated from the tree of commands.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output::Terminal;
use clap::Args;
use clap_complete::Shell;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh > ~/.zfunc/_countersign
  countersign completions fish > ~/.config/fish/completions/countersign.fish";

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell they are for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut args::command(), "countersign", &mut script);
        terminal.bytes(&script)?;
        Ok(Exit::Ok)
    }
}
