//! The limits of a grant.

use crate::error::{Error, ParamError};
use countersign_core::limits::GRANT_SECONDS_MAX;

/// Checks that a grant covers at least one call and expires. `at` is the pointer to the grant in the request.
pub fn check_bounds(at: &str, calls_max: Option<u32>, lifetime_seconds: u64) -> Result<(), Error> {
    let mut errors = Vec::new();
    if calls_max == Some(0) {
        errors.push(ParamError { pointer: format!("{at}/calls_max"), message: "must be at least 1".into() });
    }
    if !(1..=GRANT_SECONDS_MAX).contains(&lifetime_seconds) {
        errors.push(ParamError { pointer: format!("{at}/expires_in"), message: format!("must be 1 s to {GRANT_SECONDS_MAX} s") });
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::InvalidRequest { errors }) }
}
