//! Commands that look whether an effect is as it should be. A port: the pipeline runs those of a call, whatever its source.

use crate::Future;
use crate::effect::{Check, Scope};
use crate::source::{CallContext, Error};

/// Runs the commands an operator allowed, and no others.
pub trait Commands: Send + Sync {
    /// Why this command is not run; nothing where it may be.
    fn refusal(&self, command: &str, scope: &Scope) -> Option<String>;
    /// Runs it where it can change nothing, in a turn of the source whose effect it looks at. The check bears the command's text as its
    /// name. An error: it had no turn, and nobody has looked.
    fn run<'a>(&'a self, context: &'a CallContext, whose: &'a str, command: &'a str) -> Future<'a, Result<Check, Error>>;
}
