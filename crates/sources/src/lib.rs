//! Where actions come from. Today: the builtin sources `files`, `http` and `notify`, each behind the port `core::source`.
//! The only crate that opens outbound connections for actions and the only one that touches a workspace.
//! Errors of a call are `core::source::Error`; the `Error` here is about a source that could not be set up.

pub mod builtin;
mod error;

pub use error::Error;
