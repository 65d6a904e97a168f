//! The command line. `args` is the tree of commands, `run` starts the one that was typed, `commands` does it. Everything else is
//! shared by commands and knows none of them: `resource` lists and shows, `client` asks the server, `output` writes.

mod args;
mod run;
mod commands;
mod shared;
mod resource;
mod flags;
mod setting;
mod client;
mod context;
mod output;
mod exit;
mod hints;
mod style;
mod world;

pub use run::run;
pub use world::{Stream, World};

/// Answers a shell that asks for completions, and ends the process; does nothing where none does. To be called before any thread is started.
pub fn answer_shell_if_asked() {
    commands::completions::answer_shell_if_asked(|| args::command(None));
}
