//! Whether a definition is still the one a person reviewed, and what changed if not.
//! `diff` reads two archived definitions; the answer to "is it the same" never depends on it, only digests are compared.

mod diff;
mod weight;

pub use diff::{Change, Edit, semantic_diff};
pub use weight::Weight;

use countersign_core::Digest;
use countersign_core::decision::Drift;

/// Both digests of a definition as a person reviewed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    pub structural: Digest,
    pub textual: Digest,
}

/// How a definition differs from the reviewed one. What nobody reviewed cannot have drifted from anything.
pub fn drift_of(pin: Option<&Pin>, structural: Digest, textual: Digest) -> Drift {
    match pin {
        None => Drift::None,
        Some(pin) if pin.structural != structural => Drift::Structural,
        Some(pin) if pin.textual != textual => Drift::Textual,
        Some(_) => Drift::None,
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
