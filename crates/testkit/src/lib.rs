//! What tests share: a clock that stands still, repeatable randomness, throw-away databases, a network that can be cut, and fake
//! commands and sources.
//! It is only ever a dev-dependency. If a test cannot be set up, it panics with a sentence that says how to fix that.
//! The tests of this crate check the architecture of the whole workspace: see `tests/it/`.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot be set up fails at once, and says why")]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "the source that obeys is asked directly here"))]

pub mod blobs;
pub mod bucket;
mod build;
pub mod certificates;
pub mod clock;
pub mod commands;
pub mod mail;
mod nobody;
pub mod postgres;
pub mod proxy;
pub mod random;
pub mod redis;
pub mod registry;
pub mod source;
pub mod sqlite;

pub use blobs::MemoryBlobs;
pub use clock::FixedClock;
pub use commands::FakeCommands;
pub use nobody::nobody;
pub use random::SeededRandom;
pub use registry::FakeRegistry;
pub use source::FakeSource;

/// How often a test repeats something that fails only sometimes: `full` with `make test ARGS=--all`, `short` otherwise.
pub fn rounds<Number>(full: Number, short: Number) -> Number {
    if std::env::var_os("TEST_ALL").is_some() { full } else { short }
}

/// The folder in which `make test` installs MCP servers of others: `node_modules`, and `python/bin/python`.
pub fn mcp_servers() -> std::path::PathBuf {
    from_make_test("TEST_MCP_SERVERS").into()
}

/// Reads a variable that `make test` exports, or fails the test with one sentence.
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
