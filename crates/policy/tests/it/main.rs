//! The promises of this crate to its callers: the list of tests is the list of promises.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails at once")]
#![expect(clippy::print_stdout, reason = "the figures are what one runs it for")]

mod corpus;
