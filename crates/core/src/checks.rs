//! The port for check commands, which verify an effect. The pipeline runs those of a call, whatever its source.

use crate::Future;
use crate::effect::{Check, Scope};
use crate::source::{CallContext, Error};

/// Runs only the commands that an operator has allowed.
pub trait Commands: Send + Sync {
    /// Why this command is not run; `None` if it may be run.
    fn refusal(&self, command: &str, scope: &Scope) -> Option<String>;
    /// Runs the command where it can change nothing, in a turn of the source whose effect it checks (`whose`). The check is named after the
    /// command. An error means that there was no turn, so the check was not made.
    fn run<'a>(&'a self, context: &'a CallContext, whose: &'a str, command: &'a str) -> Future<'a, Result<Check, Error>>;
}
