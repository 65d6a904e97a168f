//! Whether a definition is still the one that a person reviewed, and what changed if not. Whether it is the same is decided by digests
//! alone; `diff` compares two archived definitions only to show the changes.

mod diff;
mod weight;
mod words;

pub use diff::{Change, Edit, semantic_diff};
pub use weight::Weight;
pub use words::told;

use countersign_core::Digest;
use countersign_core::decision::Drift;

/// Both digests of a definition as a person reviewed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    pub structural: Digest,
    pub textual: Digest,
}

/// How a definition differs from the reviewed one. A definition that was never reviewed has no drift.
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
