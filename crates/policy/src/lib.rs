//! What may be done, decided without IO, clock or randomness: the same facts and rules give the same answer at call time,
//! at dispatch, in `explain` and in a what-if. Read `gate`, then `decide`; `digest` says what an answer is bound to, and
//! `redact` what may be kept of a call. Nothing here performs anything.

pub mod gate;

pub mod decide;

pub mod digest;

pub mod redact;

pub use decide::{Facts, Rules, asking, decide, is_grantable};
pub use gate::{Call, denied, gate};
pub use redact::{Outgoing, Redacted, Redaction, redact, redact_params, redact_text};

#[cfg(test)]
mod digest_tests;
#[cfg(test)]
mod redact_tests;
