//! Packages: actions whose code others wrote. `manifest` says what an action may be, `folder` what a package is made of, `case` how it is
//! tried, `mistake` what is wrong with any of it, `run` how its code is run, `language` by what, `syntax` whether it reads, `egress` whom it
//! may ask, `kept` what its code was before, `plan` and `journal` what becomes of what it wrote, `source` how all of it is a source, `registry` which there are.

mod case;
mod egress;
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
mod registry;
mod run;
mod source;
mod syntax;

pub use case::{Case, cases_of};
pub use folder::{PackageFile, PackageFiles};
pub use kept::{CodeChange, Origin};
pub use language::{Interpreter, interpreters};
pub use mistake::{Mistake, Place};
pub use registry::{CheckSchema, Details, Installed, Packages, PackagesConfig, Refused};
pub use syntax::{Looked, look_at_scripts};

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
