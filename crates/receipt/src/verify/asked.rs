//! When a call was requested. Its decision was made after that time, and its idempotency key was reserved then.

use crate::body::ReceiptBody;
use countersign_core::{InvocationId, Timestamp};

/// The time according to the receipt's timing.
pub(super) fn asked_at(receipt: &ReceiptBody) -> Timestamp {
    let micros = i64::try_from(receipt.timing.total_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
    Timestamp::from_micros(receipt.timing.ended_at.as_micros().saturating_sub(micros))
}

/// The time according to the invocation's id, which starts with the milliseconds of its creation. An intent has no timing.
pub(super) fn born_at(invocation: &InvocationId) -> Timestamp {
    let millis = invocation.as_str().bytes().skip(InvocationId::PREFIX.len()).take(MILLIS_CHARS).fold(0, |millis, byte| {
        let digit = ALPHABET.iter().position(|known| *known == byte).unwrap_or(0);
        millis * 32 + digit as i64
    });
    Timestamp::from_micros(millis.saturating_mul(1_000))
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Each character holds five bits, and the milliseconds have 48.
const MILLIS_CHARS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_always_tells_its_birth_to_the_millisecond(millis in 0i64..1 << 48, random in any::<[u8; 10]>()) {
            let id = InvocationId::new(Timestamp::from_micros(millis * 1_000 + 999), random);
            prop_assert_eq!(born_at(&id), Timestamp::from_micros(millis * 1_000));
        }
    }
}
