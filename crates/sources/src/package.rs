//! Packages: actions whose code others wrote.
//!
//! `manifest` defines what an action may declare, `folder` the files of a package, `case` its test cases, and `mistake` the errors in any
//! of these. `script` names its scripts, `run` runs its code, `language` chooses the interpreter, `syntax` checks that scripts parse, and `crate::egress` limits
//! which hosts it may contact. `plan` and `journal` turn the files it wrote into an effect, `past` reverts that effect without the package, and `kept`
//! has copies of earlier code. `source` makes a package a source, `server_manifest` reads the MCP server that a package may have, `server` runs it, `ports` is what all of this works with, and `registry` holds the
//! installed packages.

mod case;
mod fields;
mod folder;
mod journal;
mod kept;
mod language;
mod loaded;
mod manifest;
mod mistake;
mod past;
mod plan;
mod ports;
mod registry;
mod run;
mod script;
mod server;
mod server_manifest;
mod source;
mod syntax;

pub use case::{Case, cases_of};
pub use folder::{PackageFile, PackageFiles};
pub use kept::{CodeChange, Origin};
pub use language::{Interpreter, interpreters};
pub use mistake::{Mistake, Place};
pub use registry::{CheckSchema, Details, Installed, Packages, PackagesConfig, Refused};
pub use server::PackageServer;
pub use server_manifest::ServerManifest;
pub use syntax::{Looked, look_at_scripts};

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
