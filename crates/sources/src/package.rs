//! Packages: actions whose code others wrote. `manifest` says what an action may be, `folder` what a package is made of, `run` how its
//! code is run, `language` by what, `egress` whom it may ask, `plan` and `journal` what becomes of what it wrote, `source` how all of it is
//! a source, `shelf` which there are.

mod egress;
mod folder;
mod journal;
mod language;
mod loaded;
mod manifest;
mod past;
mod plan;
mod run;
mod shelf;
mod source;

pub use folder::{PackageFile, PackageFiles};
pub use language::{Interpreter, interpreters};
pub use shelf::{Installed, Packages, PackagesConfig, Refused};

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
