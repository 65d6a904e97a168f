//! The command line. `args` is the tree of commands, `run` starts the command that was typed, and `commands` holds the code of each.
//! Everything else is shared by commands and knows none of them: `resource` lists and shows things, `client` asks the server, `output`
//! writes.

pub mod limits;
mod args;
mod run;
mod commands;
mod shared;
mod resource;
mod flags;
mod serving;
mod setting;
mod client;
mod context;
mod output;
mod exit;
mod hints;
mod style;
mod world;

pub use run::run;
pub use serving::{OnStart, OnStop, OnWork, Serving};
pub use world::{Stream, World};

/// If a shell asked for completions, answers it and ends the process; otherwise does nothing. It must be called before any thread is
/// started.
pub fn answer_shell_if_asked() {
    commands::completions::answer_shell_if_asked(|| args::command(None));
}
