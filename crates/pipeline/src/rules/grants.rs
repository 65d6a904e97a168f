//! The limits of a grant.

use crate::error::{Error, ParamError};
use countersign_core::Amount;
use countersign_core::grant::SumMax;
use countersign_core::limits::{GRANT_SECONDS_MAX, GRANT_SUM_POINTER_BYTES_MAX, GRANT_SUM_SECONDS_MAX};

/// Checks that a grant covers at least one call, expires, and adds up a param that can be there. `at` is the pointer to the grant in the
/// request.
pub fn check_bounds(at: &str, calls_max: Option<u32>, sum_max: Option<&SumMax>, lifetime_seconds: u64) -> Result<(), Error> {
    let mut errors = Vec::new();
    let mut wrong = |member: &str, message: String| errors.push(ParamError { pointer: format!("{at}/sum_max/{member}"), message });
    if let Some(SumMax { max, of, per_seconds }) = sum_max {
        if !is_pointer(of) || of.len() > GRANT_SUM_POINTER_BYTES_MAX {
            wrong("of", format!("must be a JSON pointer such as `/amount`, of {GRANT_SUM_POINTER_BYTES_MAX} bytes at most"));
        }
        if *max == Amount::default() {
            wrong("max", "must be more than 0".into());
        }
        if !(1..=GRANT_SUM_SECONDS_MAX).contains(per_seconds) {
            wrong("per", format!("must be 1 s to {GRANT_SUM_SECONDS_MAX} s"));
        }
    }
    if calls_max == Some(0) {
        errors.push(ParamError { pointer: format!("{at}/calls_max"), message: "must be at least 1".into() });
    }
    if !(1..=GRANT_SECONDS_MAX).contains(&lifetime_seconds) {
        errors.push(ParamError { pointer: format!("{at}/expires_in"), message: format!("must be 1 s to {GRANT_SECONDS_MAX} s") });
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::InvalidRequest { errors }) }
}

/// Whether this is an RFC 6901 pointer to something inside the params, not to all of them.
fn is_pointer(text: &str) -> bool {
    let is_step = |step: &str| step.split('~').skip(1).all(|escaped| escaped.starts_with(['0', '1']));
    text.strip_prefix('/').is_some_and(|steps| steps.split('/').all(is_step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_a_param_a_bound_and_a_window() {
        let sum = |of: &str, max: &str, per_seconds| SumMax { max: Amount::parse(max).unwrap(), of: of.to_owned(), per_seconds };
        for (bound, is_fine) in [
            (sum("/amount", "500", 86_400), true),
            (sum("/order/total~1net/0", "0.01", GRANT_SUM_SECONDS_MAX), true),
            (sum("", "500", 86_400), false),
            (sum("amount", "500", 86_400), false),
            (sum("/a~2", "500", 86_400), false),
            (sum("/a~", "500", 86_400), false),
            (sum(&format!("/{}", "a".repeat(GRANT_SUM_POINTER_BYTES_MAX)), "500", 86_400), false),
            (sum("/amount", "0", 86_400), false),
            (sum("/amount", "500", 0), false),
            (sum("/amount", "500", GRANT_SUM_SECONDS_MAX + 1), false),
        ] {
            assert_eq!(check_bounds("", None, Some(&bound), 60).is_ok(), is_fine, "{bound:?}");
        }
    }
}
