//! An org's own policies, written in Cedar: parsed, validated and evaluated. No Cedar type leaves this module.
//!
//! Cedar skips a policy that errors, so a `forbid` that errors would let the call pass; here any error is a denial. `compile` turns an
//! org's policy texts into `Policies`, and `ask` evaluates them for a call.

mod problem;

mod schema;

mod bounds;

mod compile;

mod index;

mod facts;

mod ask;

pub use compile::{compile, load};
pub use countersign_core::policies::PolicyTexts;
pub use index::Policies;
pub use problem::PolicyProblem;
pub use schema::schema;

use countersign_core::decision::Gate;

/// The gates that have policies, in the order in which they run.
const GATES: [Gate; 4] = [Gate::Rbac, Gate::Abac, Gate::Consent, Gate::Space];

/// The prefix of the ids of our own rules. The id of a policy may not begin with it.
pub(crate) const BUILTIN: &str = "builtin.";

#[cfg(test)]
mod ask_tests;
#[cfg(test)]
mod compile_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod docs_tests;
