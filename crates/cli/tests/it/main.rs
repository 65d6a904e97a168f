//! The real binary, driven as a person drives it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails at once")]

mod crash;
