//! An org's own policies, written in Cedar: read, checked and asked. Cedar stays behind this door: none of its types leaves.
//! Cedar skips a policy that errors, so a `forbid` that errors would let the call pass; here any error is a denial.
//! Start with `texts`; `compile` turns them into `Policies`, and `ask` lets those judge a call.

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

/// The gates that have policies, in the order they run.
const GATES: [Gate; 4] = [Gate::Rbac, Gate::Abac, Gate::Consent, Gate::Space];

/// What the ids of our own rules begin with, and no policy's id may.
pub(crate) const BUILTIN: &str = "builtin.";

#[cfg(test)]
mod ask_tests;
#[cfg(test)]
mod compile_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod docs_tests;
