//! Decides what may be done, without IO, clock or randomness: the same facts and rules give the same answer at call time, at dispatch, in
//! `explain` and in a what-if.
//!
//! Read `gate` first, then `decide`. `cedar` holds an org's own policies, `digest` says what an approval is bound to, `redact` what is kept
//! of a call, `scan` what is dangerous in it, and `drift` what changed in a definition since a person reviewed it. This crate performs no
//! action.

pub mod limits;
pub mod facts;

pub mod gate;

pub mod cedar;

pub mod decide;

pub mod digest;

pub mod redact;

pub mod scan;

pub mod drift;

mod words;

pub use cedar::{Policies, PolicyProblem, PolicyTexts};
pub use decide::{Facts, Rules, asking, decide, inferred, is_grantable, is_never_granted, observed};
pub use facts::{Approval, CallFacts};
pub use gate::{denied, gate, is_consent_by_approval};
pub use redact::{Outgoing, Redacted, Redaction, redact, redact_params, redact_text};
pub use scan::{Finding, Provenance, scan, scan_definition, scan_output};

#[cfg(test)]
mod digest_tests;
#[cfg(test)]
mod redact_tests;
#[cfg(test)]
mod fixtures;
