//! Commands that look whether an effect is as it should be. A port: the pipeline runs those of a call, whatever its source.

use crate::Future;
use crate::effect::{Check, Scope};
use crate::source::CallContext;

/// Runs the commands an operator allowed, and no others.
pub trait Commands: Send + Sync {
    /// Why this command is not run; nothing where it may be.
    fn refusal(&self, command: &str, scope: &Scope) -> Option<String>;
    /// Runs it where it can change nothing. The check bears the command's text as its name.
    fn run<'a>(&'a self, context: &'a CallContext, command: &'a str) -> Future<'a, Check>;
}
