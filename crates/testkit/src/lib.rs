//! What tests share: a clock that stands still, randomness that repeats, throw-away databases, a network that can be cut, commands and a source
//! that obeys.
//! Only ever a dev-dependency. A broken test set-up panics with the sentence that mends it.
//! The tests of this crate hold the whole workspace to its architecture: see `tests/it/`.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot be set up fails at once, and says why")]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "the source that obeys is asked directly here"))]

mod build;
pub mod clock;
pub mod commands;
pub mod postgres;
pub mod proxy;
pub mod random;
pub mod redis;
pub mod registry;
pub mod source;
pub mod sqlite;

pub use clock::FixedClock;
pub use commands::FakeCommands;
pub use random::SeededRandom;
pub use registry::FakeRegistry;
pub use source::FakeSource;

/// How often a test repeats what only sometimes goes wrong: `full` with `make test ARGS=--all`, `short` otherwise.
pub fn rounds<Number>(full: Number, short: Number) -> Number {
    if std::env::var_os("TEST_ALL").is_some() { full } else { short }
}

/// Reads what `make test` exports, or fails the test with one sentence.
#[track_caller]
fn from_make_test(variable: &str) -> String {
    match std::env::var(variable) {
        Ok(url) if !url.is_empty() => url,
        Ok(_) | Err(_) => panic!("`{variable}` is not set and this test needs its server: run `make test`"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "`TEST_NOBODY_SETS_THIS` is not set and this test needs its server: run `make test`")]
    fn a_missing_server_fails_the_test_with_one_sentence() {
        super::from_make_test("TEST_NOBODY_SETS_THIS");
    }
}
